"""Client and worker for the asynq queue service. It needs only the standard library (Python 3.9 or newer).

    client = Client("https://queue.example.com", token)
    client.enqueue("email:welcome", {"user": 42}, id="welcome-42", max_retry=5)

    Worker(client, {"email:welcome": lambda task: send(task.payload["user"])}, concurrency=4).run()

Requests without a response are retried for retry_for seconds. Enqueueing is idempotent, because every task
has an ID. If the response to a change was lost, the retry may fail: delete may raise NotFound, run and
archive WrongState. Durations are seconds or strings such as "1h30m"; times are aware datetimes.
"""

import base64
import datetime
import http.client
import json
import logging
import os
import random
import signal
import socket
import ssl
import threading
import time
import urllib.parse
import uuid

__all__ = [
    "Abandon", "AccessDenied", "AsynqError", "Canceled", "Client", "Conflict", "ConnectionFailed", "DuplicateTask", "InvalidRequest",
    "LeaseLost", "NotFound", "Problem", "RetryLater", "Task", "TaskGone", "TaskIdConflict", "Text", "TooLarge", "Unavailable", "Worker",
    "WrongState", "new_task", "node",
]

log = logging.getLogger("asynq")


class AsynqError(Exception):
    """Base class of the errors that a Client raises."""


class ConnectionFailed(AsynqError):
    """The service is unreachable or did not respond in time. The request may have taken effect."""


class Problem(AsynqError):
    """The service rejected the request. docs/SERVICE_API.md lists the values of kind."""

    def __init__(self, kind, status, detail, problems=(), retry_after=0.0):
        super().__init__(detail)
        self.kind, self.status, self.problems, self.retry_after = kind, status, list(problems), retry_after

    @staticmethod
    def of(problem, status, retry_after=0.0):
        problem = problem if isinstance(problem, dict) else {}
        kind = str(problem.get("type", "")).rpartition(":")[2]
        cls = _KINDS.get(kind) or _STATUSES.get(status) or (Unavailable if status >= 500 else Problem)
        detail = problem.get("detail") or problem.get("title") or f"the response has status {status}"
        return cls(kind, status, detail, problem.get("errors", ()), retry_after)


class InvalidRequest(Problem):
    """The request is invalid: see problems."""


class AccessDenied(Problem):
    """The token is unknown (401) or lacks access (403)."""


class NotFound(Problem):
    """The task, queue, workflow, node or result does not exist."""


class TaskGone(Problem):
    """The task ended without a retention, or was deleted, during the wait."""


class Conflict(Problem):
    """The current state does not allow the request (409)."""


class TaskIdConflict(Conflict):
    """The queue has a task with this ID but another type or payload."""


class DuplicateTask(Conflict):
    """Another task with the same type and payload holds the uniqueness lock."""


class WrongState(Conflict):
    """The state of the task or workflow does not allow the change."""


class LeaseLost(Conflict):
    """The lease has expired: stop processing the task."""


class TooLarge(Problem):
    """The request exceeds a size limit of the service."""


class Unavailable(Problem):
    """The service is temporarily unavailable or limits the rate: retry after retry_after seconds."""


_KINDS = {
    "invalid-request": InvalidRequest, "unauthorized": AccessDenied, "forbidden": AccessDenied, "not-found": NotFound,
    "queue-not-found": NotFound, "task-not-found": NotFound, "task-gone": TaskGone, "task-id-conflict": TaskIdConflict,
    "duplicate-task": DuplicateTask, "wrong-state": WrongState, "lease-lost": LeaseLost, "too-large": TooLarge,
    "too-many-requests": Unavailable, "redis": Unavailable, "redis-full": Unavailable, "unavailable": Unavailable,
}
_STATUSES = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 409: Conflict, 413: TooLarge, 429: Unavailable}


class RetryLater(Exception):
    """Raised by a handler to fail the attempt and set the retry delay."""

    def __init__(self, retry_in, message="try again later"):
        super().__init__(message)
        self.retry_in = retry_in


class Abandon(Exception):
    """Raised by a handler to archive the task, even if it has retries left."""


class Canceled(Exception):
    """Raised by Task.check when the handler should stop. Do not catch it."""


class Text(str):
    """A payload or result that is text, not JSON."""


def _data(name, value):
    """Returns the request field that holds a value: JSON, Text or bytes."""
    if value is None:
        return {}
    if isinstance(value, (bytes, bytearray)):
        return {name + "_base64": base64.b64encode(value).decode()}
    if isinstance(value, Text):
        return {name + "_text": value}
    return {name: value}


def _value(of, name):
    if name + "_base64" in of:
        return base64.b64decode(of[name + "_base64"])
    if name + "_text" in of:
        return Text(of[name + "_text"]) or None
    return of.get(name)


def _encode(body):
    """Encodes a request body. Raises ValueError or TypeError for values that are not JSON or not UTF-8."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def _duration(d):
    if isinstance(d, datetime.timedelta):
        d = d.total_seconds()
    return d if d is None or isinstance(d, str) else f"{d:.3f}s"


def _time(t):
    if t is not None and t.tzinfo is None:
        raise ValueError("a time needs a time zone, such as datetime.timezone.utc")
    return t and t.isoformat()


def _parse_time(text):
    """Parses a time as seconds since 1970."""
    head, _, fraction = text.rstrip("Z").partition(".")
    whole = datetime.datetime.fromisoformat(head).replace(tzinfo=datetime.timezone.utc).timestamp()
    return whole + float("0." + (fraction or "0"))


def _durations(fields):
    """Formats all values of an object but its key as durations."""
    return fields and {k: v if k == "key" else _duration(v) for k, v in fields.items()}


def new_task(type, payload=None, *, id=None, queue=None, headers=None, max_retry=None, timeout=None, deadline=None, unique_for=None,
             process_at=None, process_in=None, retention=None, group=None, idempotency_key=None, idempotency_ttl=None,
             unique_key=None, on_duplicate=None, debounce=None, throttle=None, expires_in=None, partition_key=None):
    """Returns a task for Client.enqueue_batch.

    payload is a value for json.dumps, Text or bytes. The default ID is random. All tasks with the same
    idempotency_key and queue are one task, for idempotency_ttl (24h by default); once it has ended, its
    state is "gone". unique_key replaces type and payload in the lock of unique_for; on_duplicate is
    "reject", "keep", "replace" or "supersede". debounce is {"key": ..., "quiet": ..., "max_wait": ...}
    and throttle {"key": ..., "window": ...}. partition_key is the partition of the queue, such as a
    customer, which has its own share and limits.
    """
    fields = {
        "type": type, "id": id or str(uuid.uuid4()), "queue": queue, "headers": headers, "max_retry": max_retry,
        "timeout": _duration(timeout), "deadline": _time(deadline), "unique_for": _duration(unique_for), "process_at": _time(process_at),
        "process_in": _duration(process_in), "retention": _duration(retention), "group": group,
        "idempotency_key": idempotency_key, "idempotency_ttl": _duration(idempotency_ttl),
        "unique_key": unique_key, "on_duplicate": on_duplicate, "debounce": _durations(debounce), "throttle": _durations(throttle),
        "expires_in": _duration(expires_in), "partition_key": partition_key,
    }
    return {**{k: v for k, v in fields.items() if v is not None}, **_data("payload", payload)}


def node(name, task, *, after=(), after_failure=(), after_end=(), on_dependency_failure=None):
    """Returns a node of a workflow, for Client.create_workflow.

    task is a task of new_task, or a list of any number of them; IDs of tasks are ignored. The node runs when
    all tasks of the nodes in after have succeeded, when a task of each node in after_failure has failed, and
    when all tasks of the nodes in after_end have ended. on_dependency_failure is "block", "cancel" or "ignore".
    """
    fields = {"after": list(after), "after_failure": list(after_failure), "after_end": list(after_end),
              "on_dependency_failure": on_dependency_failure}
    tasks = {"task": _without_id(task)} if isinstance(task, dict) else {"tasks": [_without_id(t) for t in task]}
    return {"name": name, **tasks, **{k: v for k, v in fields.items() if v}}


def _without_id(task):
    """Returns a task without its ID: the service sets those of workflows."""
    return {k: v for k, v in task.items() if k != "id"}


def _task_info(of):
    """Returns a task of a response, with decoded payload and result."""
    return {**of, "payload": _value(of, "payload"), "result": _value(of, "result")}


def _flow(id, retention, **fields):
    """Returns the request for a workflow or batch."""
    return {"id": id, **fields, **({} if retention is None else {"retention": _duration(retention)})}


def _quote(name):
    return urllib.parse.quote(name, safe="")


def _pause(pause, cause):
    return max(getattr(cause, "retry_after", 0.0), min(pause, 5.0) * random.uniform(0.5, 1))


class Client:
    """Client of the queue service. Threads may share it: each has its own connection."""

    BATCH = 1000

    def __init__(self, url, token, timeout=30.0, retry_for=30.0, ssl_context=None):
        self._url = urllib.parse.urlsplit(url)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise ValueError("the URL of the service must begin with http:// or https://")
        self._token, self._timeout, self._retry_for, self._ssl = token, timeout, retry_for, ssl_context
        self._local = threading.local()

    def enqueue(self, type, payload=None, **options):
        """Enqueues a task, or returns the existing one with the same ID, type and payload. Scope: enqueue.

        The options are those of new_task.
        """
        return _task_info(self._repeat("POST", "/v1/tasks", new_task(type, payload, **options))["task"])

    def enqueue_batch(self, tasks):
        """Enqueues tasks of new_task, 1,000 per request. Returns a dict or a Problem per task, in order."""
        return self._send_tasks("/v1/tasks/batch", tasks)

    def _send_tasks(self, path, tasks):
        tasks = list(tasks)
        results = [None] * len(tasks)
        for at in range(0, len(tasks), self.BATCH):
            left = range(at, min(at + self.BATCH, len(tasks)))
            end, pause = time.monotonic() + self._retry_for, 0.1
            while left:
                response = self._repeat("POST", path, {"tasks": [tasks[i] for i in left]})
                for i, r in zip(left, response["results"]):
                    results[i] = _task_info(r["task"]) if "task" in r else Problem.of(r["problem"], r["problem"]["status"])
                left = [i for i in left if isinstance(results[i], Unavailable)]
                if not left or time.monotonic() + pause > end:
                    break
                time.sleep(_pause(pause, results[left[0]]))
                pause *= 2
        return results

    def get(self, queue, id):
        """Returns a task. Scope: read."""
        return _task_info(self._repeat("GET", self._task(queue, id))["task"])

    def wait(self, queue, id, seconds=30.0):
        """Waits until a task is completed or archived, or seconds have passed, and returns it. Scope: read."""
        end = time.monotonic() + seconds
        while True:
            step = min(max(end - time.monotonic(), 0.0), 30.0)
            info = _task_info(self._repeat("GET", f"{self._task(queue, id)}?wait={step:.3f}s", wait=step)["task"])
            if info["state"] in ("completed", "archived") or time.monotonic() >= end:
                return info

    def delete(self, queue, id):
        """Deletes a task that is not active. Scope: manage."""
        self._repeat("DELETE", self._task(queue, id))

    def cancel(self, queue, id):
        """Cancels an active task: its worker receives a stop request. Scope: manage."""
        self._repeat("POST", self._task(queue, id) + "/cancel", {})

    def reschedule(self, queue, id, when):
        """Changes when a task runs: a datetime, or a delay. Scope: manage."""
        body = {"at": _time(when)} if isinstance(when, datetime.datetime) else {"in": _duration(when)}
        self._repeat("POST", self._task(queue, id) + "/reschedule", body)

    def run(self, queue, id):
        """Runs a scheduled, retry, archived or completed task now. Scope: manage."""
        self._repeat("POST", self._task(queue, id) + "/run", {})

    def archive(self, queue, id):
        """Archives a pending, scheduled or retry task. Scope: manage."""
        self._repeat("POST", self._task(queue, id) + "/archive", {})

    def queues(self):
        """Returns the statistics of the queues that the token has access to. Scope: read."""
        return self._repeat("GET", "/v1/queues")["queues"]

    def stats(self, queue):
        """Returns the statistics of a queue. Scope: read."""
        return self._repeat("GET", self._queue(queue))["queue"]

    def pause(self, queue):
        """Pauses a queue: no tasks are taken from it until it is resumed. Scope: manage."""
        self._repeat("POST", self._queue(queue) + "/pause", {})

    def resume(self, queue):
        """Resumes a paused queue. Scope: manage."""
        self._repeat("POST", self._queue(queue) + "/resume", {})

    def delete_queue(self, queue, force=False):
        """Deletes an empty queue; with force, also its tasks, provided that none is active. Scope: manage."""
        self._repeat("DELETE", self._queue(queue) + ("?force=true" if force else ""))

    def create_workflow(self, id, nodes, retention=None):
        """Creates a workflow of nodes of node, each after those that it depends on. Scope: enqueue.

        If there is one with the ID, it is returned unchanged; Conflict is raised if its nodes are others.
        """
        return self._repeat("POST", "/v1/workflows", _flow(id, retention, nodes=list(nodes)))["workflow"]

    def workflow(self, id):
        """Returns a workflow with its nodes. Scope: read."""
        return self._repeat("GET", self._workflow(id))["workflow"]

    def wait_workflow(self, id, seconds=30.0):
        """Waits until a workflow is not running, or seconds have passed, and returns it. Scope: read.

        Its status is then "succeeded", "failed", "canceled", or "blocked": a failed task must be run again.
        """
        return self._wait_flow(self._workflow(id), "workflow", seconds)

    def workflows(self):
        """Yields all workflows and batches, without their nodes, newest first. Scope: read."""
        offset = 0
        while offset is not None:
            page = self._repeat("GET", f"/v1/workflows?offset={offset}&limit=200")
            yield from page["workflows"]
            offset = page.get("next_offset")

    def cancel_workflow(self, id):
        """Cancels a workflow or batch: no further node starts. Scope: manage."""
        return self._repeat("POST", self._workflow(id) + "/cancel", {})["workflow"]

    def retry_workflow(self, id):
        """Runs the archived tasks of a workflow or batch again. Scope: manage."""
        return self._repeat("POST", self._workflow(id) + "/retry", {})["workflow"]

    def skip_node(self, id, node):
        """Makes a node that waits or has failed count as succeeded. Scope: manage."""
        return self._repeat("POST", f"{self._workflow(id)}/nodes/{_quote(node)}/skip", {})["workflow"]

    def node_result(self, id, node):
        """Returns the result of the task of a node. Raises NotFound if there is none. Scope: read."""
        return _value(self._repeat("GET", f"{self._workflow(id)}/nodes/{_quote(node)}/result"), "result")

    def create_batch(self, id, tasks, on_success=None, on_failure=None, on_end=None, retention=None):
        """Creates a batch of tasks of new_task that run at once, and tasks for its end. Scope: enqueue.

        If there is one with the ID, it is returned unchanged. More than 1,000 tasks are added to an open batch,
        which is then closed. If the call fails meanwhile, repeat it with the same tasks: those with an id and a
        retention are not added twice.
        """
        tasks = list(tasks)
        if len(tasks) <= self.BATCH:
            tasks = [_without_id(t) for t in tasks]
            return self._create_batch(id, retention, on_success, on_failure, on_end, tasks=tasks)
        batch = self.open_batch(id, on_success, on_failure, on_end, retention)
        if not batch["open"]:
            return batch
        for result in self.add_to_batch(id, tasks):
            if isinstance(result, Problem):
                raise result
        return self.close_batch(id)

    def open_batch(self, id, on_success=None, on_failure=None, on_end=None, retention=None):
        """Creates an open batch, for add_to_batch and close_batch. Scope: enqueue."""
        return self._create_batch(id, retention, on_success, on_failure, on_end, open=True)

    def add_to_batch(self, id, tasks):
        """Adds tasks to an open batch, as enqueue_batch does. Scope: enqueue."""
        return self._send_tasks(self._batch(id) + "/tasks", tasks)

    def close_batch(self, id):
        """Closes an open batch: on_success and on_end run once its tasks have ended. Scope: enqueue."""
        return self._repeat("POST", self._batch(id) + "/close", {})["batch"]

    def batch(self, id):
        """Returns the progress of a batch. Scope: read."""
        return self._repeat("GET", self._batch(id))["batch"]

    def wait_batch(self, id, seconds=30.0):
        """Waits as wait_workflow does, and returns the batch. Scope: read."""
        return self._wait_flow(self._batch(id), "batch", seconds)

    def _create_batch(self, id, retention, on_success, on_failure, on_end, **fields):
        callbacks = {"on_success": on_success, "on_failure": on_failure, "on_end": on_end}
        fields.update({name: _without_id(task) for name, task in callbacks.items() if task})
        return self._repeat("POST", "/v1/batches", _flow(id, retention, **fields))["batch"]

    def _wait_flow(self, path, name, seconds):
        end = time.monotonic() + seconds
        while True:
            step = min(max(end - time.monotonic(), 0.0), 30.0)
            info = self._repeat("GET", f"{path}?wait={step:.3f}s", wait=step)[name]
            if info["status"] != "running" or time.monotonic() >= end:
                return info

    def take(self, queues, n=1, wait=30.0, worker=None):
        """Waits for tasks and takes up to n. The request is not retried. Scope: work."""
        body = {"queues": list(queues), "n": n, "wait": _duration(wait)}
        if worker:
            body["worker"] = worker
        return [Task(t, self) for t in self._once("POST", "/v1/take", body, wait)["tasks"]]

    def extend(self, leases):
        """Extends leases. Returns None, Canceled or a Problem by lease. Not retried. Scope: work."""
        results = {}
        for r in self._once("POST", "/v1/leases/extend", {"leases": list(leases)})["results"]:
            if "problem" in r:
                results[r["lease"]] = Problem.of(r["problem"], r["problem"]["status"])
            else:
                results[r["lease"]] = Canceled("the task was canceled") if r.get("canceled") else None
        return results

    def set_progress(self, lease, fraction, note=""):
        """Stores the progress of a task, from 0 to 1. Not retried. Scope: work."""
        self._once("POST", f"/v1/leases/{_quote(lease)}/progress", {"fraction": fraction, "note": note})

    def settle(self, outcomes):
        """Settles leases. Returns None or a Problem per outcome. Not retried, but idempotent. Scope: work."""
        response = self._once("POST", "/v1/leases/settle", {"outcomes": list(outcomes)})
        return [Problem.of(r["problem"], r["problem"]["status"]) if "problem" in r else None for r in response["results"]]

    def close(self):
        """Closes the connection of this thread. The next call opens a new one."""
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection:
            connection.close()

    @staticmethod
    def _queue(name):
        return "/v1/queues/" + _quote(name)

    def _task(self, queue, id):
        return f"{self._queue(queue)}/tasks/{_quote(id)}"

    @staticmethod
    def _workflow(id):
        return "/v1/workflows/" + _quote(id)

    @staticmethod
    def _batch(id):
        return "/v1/batches/" + _quote(id)

    def _repeat(self, method, path, body=None, wait=0.0):
        end, pause, retried = time.monotonic() + self._retry_for, 0.1, False
        while True:
            try:
                return self._once(method, path, body, wait)
            except NotFound:
                if method != "DELETE" or not retried:
                    raise
                return None  # an earlier attempt has deleted it
            except (ConnectionFailed, Unavailable) as e:
                sleep = _pause(pause, e)
                if time.monotonic() + sleep > end:
                    raise
                time.sleep(sleep)
                pause, retried = pause * 2, True

    def _once(self, method, path, body=None, wait=0.0):
        data = None if body is None else _encode(body)
        headers = {"Authorization": "Bearer " + self._token, "Accept": "application/json", "User-Agent": "asynq-python"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection = self._connection()
            connection.timeout = self._timeout + wait
            if connection.sock is None:
                connection.connect()
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sock.settimeout(self._timeout + wait)
            connection.request(method, self._url.path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as e:
            self.close()
            raise ConnectionFailed(f"{method} {path}: {e!r}") from e
        try:
            value = json.loads(text) if text else None
        except (ValueError, RecursionError):
            value = None
        if not 200 <= response.status < 300:
            after = response.getheader("Retry-After", "")
            raise Problem.of(value, response.status, float(after) if after.isdigit() else 0.0)
        if text and not isinstance(value, dict):
            raise ConnectionFailed(f"{method} {path}: unexpected response, not from the queue service")
        return value

    def _connection(self):
        connection = getattr(self._local, "connection", None)
        if connection is None:
            if self._url.scheme == "https":
                context = self._ssl or ssl.create_default_context()
                connection = http.client.HTTPSConnection(self._url.hostname, self._url.port, context=context)
            else:
                connection = http.client.HTTPConnection(self._url.hostname, self._url.port)
            self._local.connection = connection
        return connection


class Task:
    """A leased task, as passed to handlers.

    attempt is 1 for the first one. deadline is in seconds since 1970, or None. partition_key is None if
    the task has none. workflow is the ID of its workflow or batch, and node its node there, or None.
    """

    def __init__(self, of, client=None):
        self._client, self._reported = client, None
        self.lease, self.queue, self.id, self.type = of["lease"], of["queue"], of["id"], of["type"]
        self.payload, self.headers = _value(of, "payload"), of.get("headers", {})
        self.partition_key = of.get("partition_key")
        self.workflow, self.node = of.get("workflow"), of.get("node")
        self.attempt, self.max_retry = of["attempt"], of["max_retry"]
        self.deadline = _parse_time(of["deadline"]) if "deadline" in of else None
        self.lease_expires_at = _parse_time(of["lease_expires_at"])
        self.trouble = None  # reason to stop

    def progress(self, fraction, note=""):
        """Reports how far the handler is, from 0 to 1. Raises LeaseLost if the task is lost.

        It may be called often: at most one request a second is made, and one for the fraction 1. Others, and requests
        that fail because the service is unavailable, are dropped.
        """
        now = time.monotonic()
        if self._client is None or self._reported is not None and now - self._reported < 1 and fraction < 1:
            return
        self._reported = now
        try:
            self._client.set_progress(self.lease, fraction, note)
        except (ConnectionFailed, Unavailable) as e:
            log.debug("progress of task %s not stored: %s", self.id, e)

    def result_of(self, node):
        """Returns the result of another node of the workflow: see Client.node_result. Scope: read."""
        return self._client.node_result(self.workflow, node)

    def canceled(self):
        """Reports whether the handler should stop: task canceled, lease lost, or deadline passed."""
        return self.trouble is not None or self.deadline is not None and time.time() >= self.deadline

    def check(self):
        """Raises Canceled if the handler should stop. Call it regularly in long handlers."""
        if self.canceled():
            raise Canceled(self.trouble or "the deadline of the attempt has passed")


class Worker:
    """Takes tasks and runs their handlers in threads. The return value of a handler is the task's result."""

    def __init__(self, client, handlers, queues=None, concurrency=1, wait=20.0, name=None, stop_timeout=30.0):
        """queues lists the queues to take from. The default is the task types."""
        if not handlers:
            raise ValueError("a worker needs handlers: pass a callable for each task type")
        self._client, self._handlers, self._queues = client, dict(handlers), list(queues or handlers)
        self._concurrency, self._wait, self._stop_timeout = concurrency, wait, stop_timeout
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._stop, self._stopped = threading.Event(), 0.0
        self._held, self._waiting, self._lock = {}, [], threading.Lock()
        self._fatal = None

    def stop(self):
        """Makes run return after the active tasks. Handlers, signal handlers and other threads may call it."""
        if not self._stop.is_set():
            self._stopped = time.monotonic()
            self._stop.set()

    def run(self):
        """Processes tasks until stop is called or, in the main thread, SIGTERM or SIGINT is received.

        Raises permanent errors, such as AccessDenied.
        """
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {s: signal.signal(s, lambda *_: self.stop()) for s in (signal.SIGTERM, signal.SIGINT)}
        self._stop.clear()
        self._fatal = None
        ended = threading.Event()
        beats = threading.Thread(target=self._beat, args=(ended,), daemon=True)
        beats.start()
        threads = [threading.Thread(target=self._loop, daemon=True) for _ in range(self._concurrency)]
        try:
            for t in threads:
                t.start()
            for t in threads:
                while t.is_alive():  # in steps, so that signals are handled
                    t.join(0.2)
                    if self._stop.is_set():
                        self._hang_up()
        finally:
            ended.set()
            beats.join()
            for s, handler in before.items():
                signal.signal(s, handler)
        if self._fatal:
            raise self._fatal

    def _loop(self):
        try:
            self._work()
        except BaseException as e:  # a dead thread must not look like an idle worker
            self._fatal = self._fatal or e
            self.stop()

    def _work(self):
        pause = 0.1
        while not self._stop.is_set():
            try:
                tasks = self._take()
                pause = 0.1
            except (ConnectionFailed, Unavailable) as e:
                if self._stop.is_set():
                    return
                log.warning("cannot take tasks, retrying: %s", e)
                self._stop.wait(_pause(pause, e))
                pause *= 2
                continue
            for task in tasks:
                if self._stop.is_set():
                    self._settle(task, {"outcome": "release"})
                    continue
                with self._lock:
                    self._held[task.lease] = task
                try:
                    self._settle(task, self._attempt(task))
                finally:
                    with self._lock:
                        del self._held[task.lease]

    def _take(self):
        connection = self._client._connection()
        with self._lock:
            self._waiting.append(connection)
        try:
            return self._client.take(self._queues, 1, self._wait, self._name)
        finally:
            with self._lock:
                self._waiting.remove(connection)

    def _hang_up(self):
        """Ends waits for tasks. The service returns undelivered tasks to their queues."""
        with self._lock:
            for connection in self._waiting:
                try:
                    connection.sock.shutdown(socket.SHUT_RDWR)
                except (AttributeError, OSError):
                    pass  # not connected

    def _attempt(self, task):
        """Runs the handler and returns the outcome."""
        try:
            outcome = self._handle(task)
            _encode(outcome)  # an invalid result fails the attempt
            return outcome
        except BaseException as e:  # also sys.exit, which would end only the thread and leave the task leased
            log.warning("attempt of task %s in queue %s failed", task.id, task.queue, exc_info=not isinstance(e, Canceled))
            return {"outcome": "fail", "error": _error(e) if isinstance(e, Canceled) else f"{type(e).__name__}: {_error(e)}"}

    def _handle(self, task):
        task.check()  # the deadline may have passed
        handler = self._handlers.get(task.type)
        if handler is None:
            raise LookupError(f"no handler for task type {task.type}")
        try:
            return {"outcome": "done", **_data("result", handler(task))}
        except RetryLater as e:
            return {"outcome": "fail", "error": _error(e), "retry_in": _duration(e.retry_in)}
        except Abandon as e:
            return {"outcome": "fail", "error": _error(e), "skip_retry": True}

    def _settle(self, task, outcome):
        """Settles a task and retries until it is settled."""
        pause = 0.1
        while True:
            try:
                problem = self._client.settle([{"lease": task.lease, **outcome}])[0]
                if problem is not None:
                    raise problem
                return
            except (InvalidRequest, TooLarge) as e:
                log.warning("outcome of task %s in queue %s rejected as invalid: %s", task.id, task.queue, e)
                if outcome["outcome"] != "done":
                    return
                outcome = {"outcome": "fail", "error": f"result rejected: {e}"}
                continue
            except (ConnectionFailed, Unavailable) as e:
                if self._stop.is_set() and time.monotonic() - self._stopped > self._stop_timeout:
                    log.error("outcome of task %s in queue %s lost, the task will be retried: %s", task.id, task.queue, e)
                    return
                time.sleep(_pause(pause, e))
                pause *= 2
            except AsynqError as e:
                log.warning("outcome of task %s in queue %s rejected: %s", task.id, task.queue, e)
                return

    def _beat(self, ended):
        """Extends the leases of active tasks, at intervals from 0.5 to 10 seconds, since clocks may differ."""
        due = {}  # time and interval, by lease
        while not ended.wait(0.1):
            now = time.monotonic()
            with self._lock:
                held = dict(self._held)
            due = {lease: at for lease, at in due.items() if lease in held}
            for lease, task in held.items():
                if lease not in due:
                    interval = max(0.5, min(10.0, (task.lease_expires_at - time.time()) / 3))
                    due[lease] = (now + interval, interval)
            leases = [lease for lease, (at, _) in due.items() if at <= now and held[lease].trouble is None]
            if not leases:
                continue
            try:
                for lease, result in self._client.extend(leases).items():
                    if result is not None and not isinstance(result, Unavailable):
                        held[lease].trouble = str(result)
                    due[lease] = (now + due[lease][1], due[lease][1])
            except Exception as e:  # without heartbeats, the leases of all active tasks would expire
                log.warning("cannot extend leases, retrying: %s", e)
                for lease in leases:
                    due[lease] = (now + min(1.0, due[lease][1]), due[lease][1])


def _error(e):
    """Returns the text of an error, at most 2,000 characters, in valid UTF-8."""
    try:
        text = str(e)
    except Exception:  # __str__ of a handler's error may raise
        text = ""
    return (text or type(e).__name__)[:2000].encode("utf-8", "replace").decode()
