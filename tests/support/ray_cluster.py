"""A small cluster of Ray on this machine that leaves nothing behind and does not meet any other."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

IP = "127.0.0.2" if sys.platform == "linux" else None  # what Ray takes for another machine, and nobody else sees


@contextmanager
def small_cluster(num_cpus: int) -> Iterator[Cluster]:
    """Yield a cluster whose first node has so many processors."""
    place = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short, for it holds sockets
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", str(place))  # where Ray says which cluster is the last one
        (place / "ray").mkdir()
        quiet = {"node_ip_address": IP, "include_dashboard": False, "temp_dir": os.fspath(place)}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": num_cpus, **quiet})
        try:
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
            shutil.rmtree(place, ignore_errors=True)
