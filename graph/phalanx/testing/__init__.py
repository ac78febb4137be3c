"""For tests of graphs: a real cluster inside the test's own process.

>>> with in_process_cluster() as cluster:
...     graph.with_cluster(cluster).invoke({"n": 1})
"""

from phalanx.testing.in_process import InProcessCluster, in_process_cluster

__all__ = ["InProcessCluster", "in_process_cluster"]
