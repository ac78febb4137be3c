"""Sending batches to workers: Celery messages by task name. The workers' app is not imported."""

import threading
from typing import Any, Final, cast

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from phalanx.checkpoint.redis.client import without_password
from phalanx.errors import ClusterUnreachableError
from phalanx.protocol.batch import RUN_BATCH, Batch

_SEND_TRIES: Final = 5


class Broker:
    """A client of the broker. Safe to use from several threads.

    Args:
        url: the broker.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._app = Celery("phalanx-coordinator", broker=url, set_as_current=False)
        self._app.conf.update(
            task_serializer="msgpack",
            accept_content=["msgpack"],
            task_ignore_result=True,
            broker_connection_timeout=5,
            broker_transport_options={"socket_keepalive": True, "health_check_interval": 20, "socket_timeout": 15},
        )
        self._lock = threading.Lock()

    def send(self, batch: Batch, queue: str, limit_s: float | None = None) -> None:
        """Send a batch to a queue.

        Args:
            limit_s: how long it may keep a worker process; then that process is ended.

        Raises:
            ClusterUnreachableError: the broker does not take it.
        """
        try:
            self._app.send_task(
                RUN_BATCH,
                args=(batch.to_wire(),),
                queue=queue,
                ignore_result=True,
                time_limit=cast("int | None", limit_s),  # a float does; Celery's types say less
                retry=True,
                retry_policy={"max_retries": _SEND_TRIES, "interval_start": 0.1, "interval_max": 1.0},
            )
        except (OperationalError, OSError) as error:
            raise ClusterUnreachableError("broker", without_password(self._url), str(error)) from error

    def depth(self, queue: str) -> int:
        """How many messages wait in a queue that no worker has taken yet.

        Raises:
            ClusterUnreachableError: the broker does not say.
        """
        try:
            with self._lock, self._app.connection_for_write() as connection:
                channel: Any = connection.default_channel
                return int(channel.queue_declare(queue=queue, durable=True).message_count)
        except (OperationalError, RedisError, OSError) as error:
            raise ClusterUnreachableError("broker", without_password(self._url), str(error)) from error

    def close(self) -> None:
        """Close its connections."""
        self._app.close()
