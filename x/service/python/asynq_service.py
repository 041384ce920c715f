"""Client and worker for the asynq queue service, with nothing but the standard library (Python 3.9 or newer).

    client = Client("https://queue.example.com", token)
    client.enqueue("email:welcome", {"user": 42}, id="welcome-42", max_retry=5)

    Worker(client, {"email:welcome": lambda task: send(task.payload["user"])}, concurrency=4).run()

What is not answered is sent again, for retry_for seconds. That is safe: a task has an ID, by which the service knows it again.
A change that was made, but not answered, meets itself when it is repeated: delete may raise NotFound then, run and archive WrongState.
Durations are seconds, or texts such as "1h30m"; times are datetimes that know their time zone.
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
    "WrongState", "new_task",
]

log = logging.getLogger("asynq")


class AsynqError(Exception):
    """All errors that a Client raises."""


class ConnectionFailed(AsynqError):
    """The service could not be reached, or did not answer in time: whether it did what was asked is not known."""


class Problem(AsynqError):
    """The service refuses. kind is a word for what is wrong: docs/SERVICE_API.md lists them."""

    def __init__(self, kind, status, detail, problems=(), retry_after=0.0):
        super().__init__(detail)
        self.kind, self.status, self.problems, self.retry_after = kind, status, list(problems), retry_after

    @staticmethod
    def of(problem, status, retry_after=0.0):
        problem = problem if isinstance(problem, dict) else {}
        kind = str(problem.get("type", "")).rpartition(":")[2]
        cls = _KINDS.get(kind) or _STATUSES.get(status) or (Unavailable if status >= 500 else Problem)
        detail = problem.get("detail") or problem.get("title") or f"the answer has status {status}"
        return cls(kind, status, detail, problem.get("errors", ()), retry_after)


class InvalidRequest(Problem):
    """The request makes no sense: see problems."""


class AccessDenied(Problem):
    """The token is unknown (401), or not good for this (403)."""


class NotFound(Problem):
    """There is no such task or queue."""


class TaskGone(Problem):
    """The task ended while you waited, and was not kept: give it a retention."""


class Conflict(Problem):
    """What is there does not allow it."""


class TaskIdConflict(Conflict):
    """The queue has another task with this ID."""


class DuplicateTask(Conflict):
    """Another task with the same type and payload holds the uniqueness lock."""


class WrongState(Conflict):
    """The task's state does not allow it."""


class LeaseLost(Conflict):
    """The lease has ended: stop working on the task."""


class TooLarge(Problem):
    """The request is longer than the service allows."""


class Unavailable(Problem):
    """The service cannot do it now: try again after retry_after seconds."""


_KINDS = {
    "invalid-request": InvalidRequest, "unauthorized": AccessDenied, "forbidden": AccessDenied, "not-found": NotFound,
    "queue-not-found": NotFound, "task-not-found": NotFound, "task-gone": TaskGone, "task-id-conflict": TaskIdConflict,
    "duplicate-task": DuplicateTask, "wrong-state": WrongState, "lease-lost": LeaseLost, "too-large": TooLarge,
    "too-many-requests": Unavailable, "redis": Unavailable, "redis-full": Unavailable, "unavailable": Unavailable,
}
_STATUSES = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 409: Conflict, 413: TooLarge, 429: Unavailable}


class RetryLater(Exception):
    """A handler raises it: the attempt has failed, try again after this long."""

    def __init__(self, retry_in, message="try again later"):
        super().__init__(message)
        self.retry_in = retry_in


class Abandon(Exception):
    """A handler raises it: do not try again. The task is archived."""


class Canceled(Exception):
    """Task.check raises it when the handler should stop. Let it pass."""


class Text(str):
    """A payload or result that is text, not to be encoded as JSON."""


def _data(name, value):
    """The field of a request that holds a value: JSON, Text or bytes."""
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
    """What is sent. Raises a ValueError or TypeError for what is no JSON, or no UTF-8."""
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
    """A time of the service as seconds since 1970."""
    head, _, fraction = text.rstrip("Z").partition(".")
    whole = datetime.datetime.fromisoformat(head).replace(tzinfo=datetime.timezone.utc).timestamp()
    return whole + float("0." + (fraction or "0"))


def new_task(type, payload=None, *, id=None, queue=None, headers=None, max_retry=None, timeout=None, deadline=None, unique_for=None,
             process_at=None, process_in=None, retention=None, group=None):
    """A task for Client.enqueue_batch. payload is what json.dumps takes, Text or bytes. Without an ID it gets a random one."""
    fields = {
        "type": type, "id": id or str(uuid.uuid4()), "queue": queue, "headers": headers, "max_retry": max_retry,
        "timeout": _duration(timeout), "deadline": _time(deadline), "unique_for": _duration(unique_for), "process_at": _time(process_at),
        "process_in": _duration(process_in), "retention": _duration(retention), "group": group,
    }
    return {**{k: v for k, v in fields.items() if v is not None}, **_data("payload", payload)}


def _task_info(of):
    """Answers about tasks are dicts as the service sends them, with payload and result in one form."""
    return {**of, "payload": _value(of, "payload"), "result": _value(of, "result")}


def _pause(pause, cause):
    return max(getattr(cause, "retry_after", 0.0), min(pause, 5.0) * random.uniform(0.5, 1))


class Client:
    """Talks to the queue service. It may be shared by threads: each keeps a connection of its own."""

    BATCH = 1000

    def __init__(self, url, token, timeout=30.0, retry_for=30.0, ssl_context=None):
        self._url = urllib.parse.urlsplit(url)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise ValueError("the URL of the service must begin with http:// or https://")
        self._token, self._timeout, self._retry_for, self._ssl = token, timeout, retry_for, ssl_context
        self._local = threading.local()

    def enqueue(self, type, payload=None, **options):
        """Enqueues a task (see new_task), or returns the one that is there with the same ID, type and payload. Scope: enqueue."""
        return _task_info(self._repeat("POST", "/v1/tasks", new_task(type, payload, **options))["task"])

    def enqueue_batch(self, tasks):
        """Enqueues many tasks, made by new_task, a thousand at a time. Each has a result, in order: a dict, or a Problem."""
        tasks = list(tasks)
        results = [None] * len(tasks)
        for at in range(0, len(tasks), self.BATCH):
            left = range(at, min(at + self.BATCH, len(tasks)))
            end, pause = time.monotonic() + self._retry_for, 0.1
            while left:
                answer = self._repeat("POST", "/v1/tasks/batch", {"tasks": [tasks[i] for i in left]})
                for i, r in zip(left, answer["results"]):
                    results[i] = _task_info(r["task"]) if "task" in r else Problem.of(r["problem"], r["problem"]["status"])
                left = [i for i in left if isinstance(results[i], Unavailable)]
                if not left or time.monotonic() + pause > end:
                    break
                time.sleep(_pause(pause, results[left[0]]))
                pause *= 2
        return results

    def get(self, queue, id):
        """What is known of a task. Scope: read."""
        return _task_info(self._repeat("GET", self._task(queue, id))["task"])

    def wait(self, queue, id, seconds=30.0):
        """Waits until a task is completed or archived, so long at most, and returns what is known of it then. Scope: read."""
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
        """Asks the worker of an active task to stop. Scope: manage."""
        self._repeat("POST", self._task(queue, id) + "/cancel", {})

    def reschedule(self, queue, id, when):
        """Has a task run at another time: a datetime, or how long from now. Scope: manage."""
        body = {"at": _time(when)} if isinstance(when, datetime.datetime) else {"in": _duration(when)}
        self._repeat("POST", self._task(queue, id) + "/reschedule", body)

    def run(self, queue, id):
        """Has a task run now. Scope: manage."""
        self._repeat("POST", self._task(queue, id) + "/run", {})

    def archive(self, queue, id):
        """Archives a task: it stays, and is not run. Scope: manage."""
        self._repeat("POST", self._task(queue, id) + "/archive", {})

    def queues(self):
        """The figures of all queues that the token is good for. Scope: read."""
        return self._repeat("GET", "/v1/queues")["queues"]

    def stats(self, queue):
        """The figures of a queue. Scope: read."""
        return self._repeat("GET", self._queue(queue))["queue"]

    def pause(self, queue):
        """Lets no task of the queue be taken until it is resumed. Scope: manage."""
        self._repeat("POST", self._queue(queue) + "/pause", {})

    def resume(self, queue):
        """Ends a pause. Scope: manage."""
        self._repeat("POST", self._queue(queue) + "/resume", {})

    def take(self, queues, n=1, wait=30.0, worker=None):
        """Waits for tasks, and takes up to n. It is sent once. Scope: work."""
        body = {"queues": list(queues), "n": n, "wait": _duration(wait)}
        if worker:
            body["worker"] = worker
        return [Task(t) for t in self._once("POST", "/v1/take", body, wait)["tasks"]]

    def extend(self, leases):
        """Has leases last longer. It is sent once. Returns by lease: None, Canceled, or a Problem. Scope: work."""
        results = {}
        for r in self._once("POST", "/v1/leases/extend", {"leases": list(leases)})["results"]:
            if "problem" in r:
                results[r["lease"]] = Problem.of(r["problem"], r["problem"]["status"])
            else:
                results[r["lease"]] = Canceled("the task was canceled") if r.get("canceled") else None
        return results

    def settle(self, outcomes):
        """Tells how attempts ended. It is sent once, and may be repeated. Returns None or a Problem for each. Scope: work."""
        answer = self._once("POST", "/v1/leases/settle", {"outcomes": list(outcomes)})
        return [Problem.of(r["problem"], r["problem"]["status"]) if "problem" in r else None for r in answer["results"]]

    def close(self):
        """Closes the connection of this thread. The next call opens another."""
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection:
            connection.close()

    @staticmethod
    def _queue(name):
        return "/v1/queues/" + urllib.parse.quote(name, safe="")

    def _task(self, queue, id):
        return f"{self._queue(queue)}/tasks/{urllib.parse.quote(id, safe='')}"

    def _repeat(self, method, path, body=None, wait=0.0):
        end, pause = time.monotonic() + self._retry_for, 0.1
        while True:
            try:
                return self._once(method, path, body, wait)
            except (ConnectionFailed, Unavailable) as e:
                sleep = _pause(pause, e)
                if time.monotonic() + sleep > end:
                    raise
                time.sleep(sleep)
                pause *= 2

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
            answer = json.loads(text) if text else None
        except (ValueError, RecursionError):
            answer = None
        if not 200 <= response.status < 300:
            after = response.getheader("Retry-After", "")
            raise Problem.of(answer, response.status, float(after) if after.isdigit() else 0.0)
        if text and not isinstance(answer, dict):
            raise ConnectionFailed(f"{method} {path}: the answer is not that of the queue service")
        return answer

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
    """A task that was taken: what a handler gets. attempt is 1 for the first one, deadline seconds since 1970 or None."""

    def __init__(self, of):
        self.lease, self.queue, self.id, self.type = of["lease"], of["queue"], of["id"], of["type"]
        self.payload, self.headers = _value(of, "payload"), of.get("headers", {})
        self.attempt, self.max_retry = of["attempt"], of["max_retry"]
        self.deadline = _parse_time(of["deadline"]) if "deadline" in of else None
        self.lease_expires_at = _parse_time(of["lease_expires_at"])
        self.trouble = None  # why to stop

    def canceled(self):
        """Whether the handler should stop: the task was canceled, its lease lost, or its time is over."""
        return self.trouble is not None or self.deadline is not None and time.time() >= self.deadline

    def check(self):
        """Raises Canceled if the handler should stop. Long handlers call it at places where they can."""
        if self.canceled():
            raise Canceled(self.trouble or "the deadline of the attempt has passed")


class Worker:
    """Takes tasks and gives them to handlers, by type, in so many threads. What a handler returns is the task's result."""

    def __init__(self, client, handlers, queues=None, concurrency=1, wait=20.0, name=None, stop_timeout=30.0):
        """queues are those to take from: without them, those that have the names of the types."""
        if not handlers:
            raise ValueError("a worker needs handlers: give a callable for each type of task")
        self._client, self._handlers, self._queues = client, dict(handlers), list(queues or handlers)
        self._concurrency, self._wait, self._stop_timeout = concurrency, wait, stop_timeout
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._stop, self._stopped = threading.Event(), 0.0
        self._held, self._waiting, self._lock = {}, [], threading.Lock()
        self._fatal = None

    def stop(self):
        """Has run return once the tasks at work have ended. It may be called from a handler, a signal or another thread."""
        if not self._stop.is_set():
            self._stopped = time.monotonic()
            self._stop.set()

    def run(self):
        """Works until stop is called, or SIGTERM or SIGINT comes if this is the main thread. Raises what waiting does not mend."""
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
                while t.is_alive():  # in steps: a signal is handled between them
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
        except BaseException as e:  # a thread that is gone must not look like a worker without tasks
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
                log.warning("no tasks can be taken for now: %s", e)
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
        """Ends waits for tasks. The service gives tasks back that it cannot deliver."""
        with self._lock:
            for connection in self._waiting:
                try:
                    connection.sock.shutdown(socket.SHUT_RDWR)
                except (AttributeError, OSError):
                    pass  # it is not connected yet, or no more

    def _attempt(self, task):
        """Runs the handler, and returns the outcome."""
        try:
            outcome = self._handle(task)
            _encode(outcome)  # what cannot be sent fails the attempt
            return outcome
        except BaseException as e:  # also sys.exit: in a thread, it would end that thread alone, and leave the task to its lease
            log.warning("an attempt of task %s of queue %s has failed", task.id, task.queue, exc_info=not isinstance(e, Canceled))
            return {"outcome": "fail", "error": _error(e) if isinstance(e, Canceled) else f"{type(e).__name__}: {_error(e)}"}

    def _handle(self, task):
        task.check()  # it may have been enqueued with a deadline that has passed by now
        handler = self._handlers.get(task.type)
        if handler is None:
            raise LookupError(f"this worker has no handler for the type {task.type}")
        try:
            return {"outcome": "done", **_data("result", handler(task))}
        except RetryLater as e:
            return {"outcome": "fail", "error": _error(e), "retry_in": _duration(e.retry_in)}
        except Abandon as e:
            return {"outcome": "fail", "error": _error(e), "skip_retry": True}

    def _settle(self, task, outcome):
        """Tells the service of an outcome, again and again until it knows it."""
        pause = 0.1
        while True:
            try:
                problem = self._client.settle([{"lease": task.lease, **outcome}])[0]
                if problem is not None:
                    raise problem
                return
            except (InvalidRequest, TooLarge) as e:
                log.warning("the outcome of task %s of queue %s is refused: %s", task.id, task.queue, e)
                if outcome["outcome"] != "done":
                    return
                outcome = {"outcome": "fail", "error": f"the result is refused: {e}"}
                continue
            except (ConnectionFailed, Unavailable) as e:
                if self._stop.is_set() and time.monotonic() - self._stopped > self._stop_timeout:
                    log.error("the outcome of task %s of queue %s is lost, and the task tried again: %s", task.id, task.queue, e)
                    return
                time.sleep(_pause(pause, e))
                pause *= 2
            except AsynqError as e:
                log.warning("the outcome of task %s of queue %s does not count: %s", task.id, task.queue, e)
                return

    def _beat(self, ended):
        """Extends the leases of all tasks at work. Its clock may differ from the service's, so the pauses stay within reason."""
        due = {}  # by lease: when, and how often
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
            except Exception as e:  # whatever it is: without heartbeats, all tasks at work would be lost
                log.warning("leases are not extended for now: %s", e)
                for lease in leases:
                    due[lease] = (now + min(1.0, due[lease][1]), due[lease][1])


def _error(e):
    """The text of an error, no longer than an error should be, in valid UTF-8."""
    try:
        text = str(e)
    except Exception:  # it is a handler's
        text = ""
    return (text or type(e).__name__)[:2000].encode("utf-8", "replace").decode()
