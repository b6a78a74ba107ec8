"""Images as grids of tiles: from a few large squares to single pixels."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise

import numpy as np
import numpy.typing as npt

CHANNELS = (1, 3, 4)
GROUPS = 16  # of tiles in a grid, at least

Places = npt.NDArray[np.intp]


def layout(shape: tuple[int, ...]) -> tuple[int, int, int, bool]:
    """Return channels, height and width of an image, and whether channels come first.

    (h, w); (c, h, w) or (h, w, c) with c of 1, 3 or 4. Anything else is one row of pixels.
    """
    if len(shape) == 2:
        return 1, shape[0], shape[1], True
    if len(shape) == 3 and shape[0] in CHANNELS:
        return shape[0], shape[1], shape[2], True
    if len(shape) == 3 and shape[2] in CHANNELS:
        return shape[2], shape[0], shape[1], False
    return 1, 1, math.prod(shape), True


class CoarseToFine:
    """All tiles of a search: grids of 1, 2, 4, … tiles a side up to `finest` or to pixels, `rounds` times over.

    Within a grid tiles come from the middle of the image outwards. They are tried in groups: `group` of them at most,
    all of one grid and no more than a sixteenth of it. `round` tiles are in one round, `total` in all of them.
    """

    def __init__(self, shape: tuple[int, ...], finest: int, rounds: int, group: int) -> None:
        _, height, width, _ = layout(shape)
        self._size = math.prod(shape)
        self._entries: dict[tuple[int, int], tuple[Places, Places]] = {}
        sides = [2**k for k in range(finest.bit_length())]
        pixels = next((k for k, side in enumerate(sides) if side >= max(height, width)), len(sides) - 1)
        self._levels = [_level(shape, side) for side in sides[: pixels + 1]]
        self._starts = [0, *np.cumsum([len(bounds) - 1 for _, bounds in self._levels]).tolist()]
        self.round = int(self._starts[-1])
        self.total = rounds * self.round
        self._stops: list[int] = []  # where a group that begins with this tile ends
        for first, end in pairwise(self._starts):
            most = min(group, max(1, (end - first) // GROUPS))
            self._stops += [min(place + most, end) for place in range(first, end)]

    def stop(self, place: int) -> int:
        """Return where a group ends that begins with a tile."""
        within = place % self.round
        return place - within + self._stops[within]

    def __getitem__(self, place: int) -> Places:
        """Return the pixels of a tile."""
        within = place % self.round
        level = bisect_right(self._starts, within) - 1
        pixels, bounds = self._levels[level]
        tile = within - self._starts[level]
        return pixels[bounds[tile] : bounds[tile + 1]]

    def entries(self, start: int, stop: int) -> tuple[Places, Places]:
        """Return the pixels of some tiles, one tile after the other, and where they stand in a stack of images.

        The stack has one image for each tile, all pixels in one row.
        """
        if (start, stop) not in self._entries:
            parts = [self[place] for place in range(start, stop)]
            image = np.repeat(np.arange(stop - start), [len(part) for part in parts])
            pixels = np.concatenate(parts)
            self._entries[start, stop] = (pixels, image * self._size + pixels)
        return self._entries[start, stop]


def _level(shape: tuple[int, ...], side: int) -> tuple[Places, Places]:
    """Return the pixels of a grid, sorted by tile from the middle outwards, and where each tile begins.

    The grid has `side` tiles a side, or one for each pixel of a shorter side; channels have tiles of their own.
    """
    channels, height, width, first = layout(shape)
    down = min(side, height)
    across = min(side, width)
    grid = (np.arange(height) * down // height)[:, None] * across + np.arange(width) * across // width
    tile = np.arange(channels)[:, None, None] * (down * across) + grid
    row, column = np.indices((height, width)) - np.array([(height - 1) / 2, (width - 1) / 2])[:, None, None]
    far = np.broadcast_to(np.hypot(row, column), tile.shape)
    if not first:
        tile = np.moveaxis(tile, 0, -1)
        far = np.moveaxis(far, 0, -1)
    number = tile.ravel()
    members = np.bincount(number)
    rank = np.argsort(np.argsort(np.bincount(number, far.ravel()) / members, kind="stable"), kind="stable")
    pixels = np.argsort(rank[number], kind="stable")
    return pixels, np.concatenate([[0], np.cumsum(members[np.argsort(rank)])])
