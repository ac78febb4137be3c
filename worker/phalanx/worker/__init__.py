"""The worker floor: what a node is, how one task runs, and the process that runs tasks for a cluster."""
