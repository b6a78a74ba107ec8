"""Projections."""

import numpy as np

from goldstein.projection import Box


def test_the_point_of_a_box_without_room_for_the_margin_is_in_the_box():
    box = Box(np.array([1e-9, 1.0]), np.array([2e-9, 1 + 4e-16]))
    for margin in (1e-20, 1e-9, 1.0, 1e9, 1e300):
        x = box(np.array([5.0, 5.0]), margin)
        assert (box.lower <= x).all(), margin
        assert (x <= box.upper).all(), margin
