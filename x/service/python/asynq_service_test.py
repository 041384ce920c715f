"""Tests against the service at ASYNQ_URL with ASYNQ_TOKEN.

go test ./e2e in x/service starts a service behind a proxy that drops connections.
"""

import contextlib
import datetime
import os
import sys
import threading
import time
import unittest
import uuid

import asynq_service as asynq


def client(token="ASYNQ_TOKEN", **options):
    return asynq.Client(os.environ["ASYNQ_URL"], os.environ[token], **options)


def fresh(name):
    return f"{name}-{uuid.uuid4().hex[:8]}"


def work(handlers, times, **options):
    """Runs a worker until its handlers have run this many times."""
    left = threading.Semaphore(times - 1)

    def counted(handler):
        def run(task):
            if not left.acquire(blocking=False):
                worker.stop()
            return handler(task)
        return run

    worker = asynq.Worker(client(), {t: counted(h) for t, h in handlers.items()}, **options)
    worker.run()


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.client = client()
        self.addCleanup(self.client.close)

    def test_enqueue(self):
        kind = fresh("py")
        at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        options = dict(id="a/b?c", queue=kind + "-queue", headers={"trace": "x"}, max_retry=3, timeout=90, process_at=at, retention="1h")
        info = self.client.enqueue(kind, {"user": 42, "text": "ä"}, **options)
        self.assertEqual((info["state"], info["max_retry"], info["timeout"]), ("scheduled", 3, "1m30s"))
        self.assertEqual(self.client.enqueue(kind, {"user": 42, "text": "ä"}, **options)["id"], "a/b?c")
        got = self.client.get(kind + "-queue", "a/b?c")
        self.assertEqual((got["payload"], got["headers"]), ({"user": 42, "text": "ä"}, {"trace": "x"}))
        with self.assertRaises(asynq.TaskIdConflict):
            self.client.enqueue(kind, "other", **options)
        self.client.reschedule(kind + "-queue", "a/b?c", "2h")
        with self.assertRaises(asynq.WrongState):
            self.client.cancel(kind + "-queue", "a/b?c")

    def test_payloads(self):
        kind = fresh("py")
        for value in (None, 0, False, "", "text", [1, 2.5], {"a": None}, asynq.Text("not JSON"), b"\xff\x00"):
            task = self.client.enqueue(kind, value)
            self.assertEqual(self.client.get(kind, task["id"])["payload"], value)
        with self.assertRaises(ValueError):
            self.client.enqueue(kind, float("nan"))
        with self.assertRaises(ValueError):
            self.client.enqueue(kind, process_at=datetime.datetime.now())

    def test_batch(self):
        kind = fresh("py")
        tasks = [asynq.new_task(kind, n, id=str(n), max_retry=-1 if n == 1200 else 3) for n in range(1500)]
        results = self.client.enqueue_batch(tasks)
        self.assertEqual(results[1499]["id"], "1499")
        self.assertEqual(results[1200].problems[0]["pointer"], "/tasks/200/max_retry")
        self.assertEqual(self.client.stats(kind)["pending"], 1499)

    def test_batch_retries_unavailable_tasks(self):
        kind = fresh("py")
        c = client()
        sent = []

        def repeat(method, path, body):
            sent.append([t["id"] for t in body["tasks"]])
            response = asynq.Client._repeat(c, method, path, body)
            if len(sent) == 1:
                response["results"][1] = {"problem": {"type": "urn:asynq:problem:redis", "status": 503}}
            return response

        c._repeat = repeat
        results = c.enqueue_batch([asynq.new_task(kind, id=n) for n in "abc"])
        self.assertEqual([r["id"] for r in results], ["a", "b", "c"])
        self.assertEqual(sent, [["a", "b", "c"], ["b"]])

    def test_idempotency_key(self):
        kind = fresh("py")

        def enqueue():
            return self.client.enqueue(kind, idempotency_key="order-7", idempotency_ttl="1h")

        first = enqueue()
        self.assertEqual(enqueue()["id"], first["id"])
        with contextlib.suppress(asynq.NotFound):  # repeated after a lost response
            self.client.delete(kind, first["id"])
        self.assertEqual((enqueue()["id"], enqueue()["state"]), (first["id"], "gone"))

    def test_modes(self):
        kind = fresh("py")
        replace = [self.client.enqueue(kind, n, unique_for=3600, unique_key="doc", on_duplicate="replace", expires_in="1h") for n in (1, 2)]
        self.assertEqual(replace[0]["id"], replace[1]["id"])
        self.assertEqual(self.client.get(kind, replace[0]["id"])["payload"], 2)
        debounce = [self.client.enqueue(kind, debounce={"key": "d", "quiet": 60, "max_wait": "5m"}) for _ in range(2)]
        self.assertEqual((debounce[0]["id"], "scheduled"), (debounce[1]["id"], debounce[1]["state"]))
        throttle = [self.client.enqueue(kind, throttle={"key": "t", "window": "1m"}) for _ in range(2)]
        self.assertEqual(throttle[0]["id"], throttle[1]["id"])
        self.assertEqual(self.client.enqueue(kind, partition_key="customer 7")["partition_key"], "customer 7")
        self.assertEqual(self.client.stats(kind)["held"], 0)
        with self.assertRaises(asynq.InvalidRequest):
            self.client.enqueue(kind, partition_key=" ")

    def test_changes_of_workflows(self):
        kind = fresh("py")
        c = self.client
        chain = [asynq.node("a", asynq.new_task(kind + "/a")), asynq.node("b", asynq.new_task(kind + "/b"), after=["a"])]
        self.assertEqual(c.create_workflow(kind + "/x", chain, retention="1h")["status"], "running")
        self.assertEqual(c.create_workflow(kind + "/x", chain)["total"], 2)
        self.assertEqual(c.wait_workflow(kind + "/x", 0.2)["status"], "running")
        with self.assertRaises(asynq.Conflict):
            c.create_workflow(kind + "/x", chain[:1])
        with self.assertRaises(asynq.WrongState):
            c.skip_node(kind + "/x", "a")
        self.assertEqual(c.skip_node(kind + "/x", "b")["nodes"][1]["status"], "skipped")
        self.assertEqual(c.retry_workflow(kind + "/x")["status"], "running")
        self.assertEqual(c.cancel_workflow(kind + "/x")["status"], "canceled")
        self.assertIn((kind + "/x", "canceled"), [(w["id"], w["status"]) for w in c.workflows()])
        with self.assertRaises(asynq.NotFound):
            c.workflow(kind)
        with self.assertRaises(asynq.NotFound):
            c.node_result(kind + "/x", "a")
        with self.assertRaises(asynq.InvalidRequest) as caught:
            c.create_workflow(kind, [asynq.node("a", [asynq.new_task(kind, group="g")])])
        self.assertEqual(caught.exception.problems[0]["pointer"], "/nodes/0/tasks/0/group")

    def test_large_batch(self):
        kind = fresh("py")
        c = self.client
        tasks = [asynq.new_task(kind, n, id=str(n)) for n in range(1200)]
        for _ in range(2):
            batch = c.create_batch(kind, tasks, on_end=asynq.new_task(kind + "/end"))
            self.assertEqual((batch["open"], batch["total"], batch["callbacks"]["on_end"]["status"]), (False, 1200, "waiting"))
        self.assertEqual(c.stats(kind)["pending"], 1200)
        self.assertEqual(c.open_batch(kind + "/2", on_success=asynq.new_task(kind))["open"], True)
        results = c.add_to_batch(kind + "/2", [asynq.new_task(kind), asynq.new_task(kind, max_retry=-1)])
        self.assertEqual((results[0]["state"], results[1].kind), ("pending", "invalid-request"))
        self.assertEqual(c.close_batch(kind + "/2")["total"], 1)
        self.assertEqual(c.batch(kind + "/2")["open"], False)
        with self.assertRaises(asynq.WrongState):
            c.add_to_batch(kind + "/2", [asynq.new_task(kind)])

    def test_pause(self):
        kind = fresh("py")
        self.client.enqueue(kind)
        self.client.pause(kind)
        self.assertTrue(self.client.stats(kind)["paused"])
        self.client.resume(kind)
        self.assertIn((kind, False), [(q["name"], q["paused"]) for q in self.client.queues()])

    def test_delete_queue(self):
        kind = fresh("py")
        self.client.enqueue(kind)
        with self.assertRaises(asynq.Conflict) as caught:
            self.client.delete_queue(kind)
        self.assertEqual(caught.exception.kind, "queue-not-empty")
        self.client.delete_queue(kind, force=True)
        with self.assertRaises(asynq.NotFound):
            self.client.stats(kind)

    def test_lost_response_to_delete(self):
        for n in range(14):  # the proxy drops one response of seven requests: in one of the rounds, that of a deletion
            kind = self.client.enqueue(fresh("py"), id="x")["queue"]
            if n < 7:
                self.client.delete(kind, "x")
            else:
                self.client.delete_queue(kind, force=True)
        with self.assertRaises(asynq.NotFound):
            for _ in range(3):  # the proxy does not drop two of them
                self.client.delete_queue(fresh("py"))

    def test_rejected_requests(self):
        with self.assertRaises(asynq.AccessDenied):
            client("ASYNQ_READ_TOKEN").enqueue("x")
        with self.assertRaises(asynq.NotFound):
            self.client.stats(fresh("nowhere"))
        with self.assertRaises(asynq.ConnectionFailed):
            asynq.Client("http://127.0.0.1:1", "x", retry_for=0).queues()
        with self.assertRaises(asynq.AccessDenied):
            asynq.Worker(client("ASYNQ_READ_TOKEN"), {fresh("py"): print}).run()


class WorkerTest(unittest.TestCase):
    def test_outcomes(self):
        kind = fresh("py")

        def handler(task):
            if isinstance(task.payload, str):
                raise {"later": asynq.RetryLater(7200, "busy"), "never": asynq.Abandon("no user"), "plain": KeyError("x")}[task.payload]
            return {"twice": 2 * task.payload}

        c = client()
        for n in (1, 2, "later", "never", "plain"):
            c.enqueue(kind, n, id=str(n), retention="1h")
        with self.assertLogs("asynq", "WARNING"):
            work({kind: handler}, 5, concurrency=3)
        self.assertEqual(c.wait(kind, "2")["result"], {"twice": 4})
        self.assertEqual([c.get(kind, n)["state"] for n in ("1", "later", "never", "plain")], ["completed", "retry", "archived", "retry"])
        self.assertEqual([c.get(kind, n)["last_error"] for n in ("later", "plain")], ["busy", "KeyError: 'x'"])

    def test_partition_key(self):
        kind = fresh("py")
        c = client()
        c.enqueue_batch([asynq.new_task(kind, id="a", partition_key="customer 7", retention="1h"), asynq.new_task(kind, id="b", retention="1h")])
        work({kind: lambda task: [task.partition_key]}, 2)
        self.assertEqual([c.get(kind, id)["result"] for id in ("a", "b")], [["customer 7"], [None]])
        self.assertEqual(c.get(kind, "a")["partition_key"], "customer 7")

    def test_workflow(self):
        kind = fresh("py")
        c = client()
        boxes = []

        def pack(task):
            if task.payload == 2 and not boxes:
                raise asynq.Abandon("no box")
            return [task.workflow, task.node]

        def ship(task):
            return {"charge": task.result_of("charge"), "node": task.node}

        charge, ship_task = asynq.new_task(kind + "/charge", retention="1h"), asynq.new_task(kind + "/ship")
        c.create_workflow(kind, [
            asynq.node("charge", charge),
            asynq.node("pack", [asynq.new_task(kind + "/pack", n) for n in (1, 2)], after=["charge"]),
            asynq.node("ship", ship_task, after=["pack"]),
            asynq.node("refund", asynq.new_task(kind + "/refund"), after_failure=["pack"]),
        ])
        handlers = {kind + "/charge": lambda _: {"paid": 7}, kind + "/pack": pack, kind + "/ship": ship, kind + "/refund": lambda _: None}
        work(handlers, 4)
        info = c.wait_workflow(kind)
        self.assertEqual((info["status"], [n["status"] for n in info["nodes"]]), ("blocked", ["succeeded", "failed", "waiting", "succeeded"]))
        self.assertEqual(c.wait(kind + "/charge", info["nodes"][0]["task_id"])["result"], {"paid": 7})
        boxes.append("a box")
        c.retry_workflow(kind)
        work(handlers, 2)
        self.assertEqual(c.wait_workflow(kind)["status"], "succeeded")
        self.assertEqual(c.node_result(kind, "ship"), {"charge": {"paid": 7}, "node": "ship"})

    def test_batch(self):
        kind = fresh("py")
        c = client()
        tasks = [asynq.new_task(kind, n) for n in range(3)]
        c.create_batch(kind, tasks, on_success=asynq.new_task(kind, "done"), on_failure=asynq.new_task(kind, "broken"), retention=3600)
        ran = []
        work({kind: lambda task: ran.append(task.payload)}, 4)
        batch = c.wait_batch(kind)
        self.assertEqual((batch["status"], batch["members"], batch["succeeded"]), ("succeeded", "succeeded", 3))
        self.assertEqual((ran[3], batch["callbacks"]["on_failure"]["status"]), ("done", "omitted"))

    def test_leases_are_extended(self):
        kind = fresh("py")
        c = client()
        c.enqueue(kind, retention="1h", id="x")
        work({kind: lambda task: time.sleep(3) or task.attempt}, 1)  # longer than a lease
        self.assertEqual(c.get(kind, "x")["result"], 1)

    def test_progress(self):
        kind = fresh("py")
        c = client()
        c.enqueue(kind, retention="1h", id="x")

        def handler(task):
            while "progress" not in c.get(kind, "x"):  # requests that fail are dropped
                task.progress(1, "ä done")

        work({kind: handler}, 1)
        progress = c.wait(kind, "x")["progress"]
        self.assertEqual([progress["fraction"], progress["note"]], [1, "ä done"])

    def test_cancel(self):
        kind = fresh("py")
        c = client()
        c.enqueue(kind, id="x")

        def handler(task):
            client().cancel(kind, "x")
            for _ in range(2000):
                task.check()
                time.sleep(0.01)

        with self.assertLogs("asynq", "WARNING"):
            work({kind: handler}, 1)
        self.assertIn("cancel", c.get(kind, "x")["last_error"])

    def test_rejected_result(self):
        kind = fresh("py")
        c = client()
        c.enqueue(kind, id="x", max_retry=0)
        with self.assertLogs("asynq", "WARNING"):
            work({kind: lambda _: "x" * (9 << 20)}, 1)
        self.assertIn("rejected", c.get(kind, "x")["last_error"])

    def test_handler_errors_do_not_end_the_worker(self):
        class Mute(Exception):
            def __str__(self):
                raise ValueError

        kind = fresh("py")
        c = client()

        def handler(task):
            if task.id == "exit":
                sys.exit(3)
            if task.id == "later":
                raise asynq.RetryLater([])  # not a duration
            if task.id == "mute":
                raise Mute
            return {"surrogate": "\ud800", "set": {1}, "last": 1}[task.id]

        want = {"surrogate": "UnicodeEncodeError", "set": "TypeError", "exit": "SystemExit", "later": "TypeError", "mute": "Mute", "last": ""}
        for n in want:
            c.enqueue(kind, id=n, max_retry=0, retention="1h")
        with self.assertLogs("asynq", "WARNING"):
            work({kind: handler}, len(want))
        self.assertEqual({n: c.get(kind, n).get("last_error", "").partition(":")[0] for n in want}, want)

    def test_thread_errors_end_the_worker(self):
        c = client()
        c.take = lambda *_: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            asynq.Worker(c, {fresh("py"): print}, concurrency=2).run()

    def test_overdue_task_is_not_started(self):
        kind = fresh("py")
        c = client()
        c.enqueue(kind, id="x", max_retry=0, deadline=datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1))
        c.enqueue(kind, id="last")
        with self.assertLogs("asynq", "WARNING"):
            work({kind: lambda _: None}, 1)
        self.assertIn("deadline", c.get(kind, "x")["last_error"])

    def test_stop_ends_waits(self):
        worker = asynq.Worker(client(), {fresh("py"): print}, concurrency=2, wait=60)
        threading.Timer(0.5, worker.stop).start()
        start = time.monotonic()
        worker.run()
        self.assertLess(time.monotonic() - start, 20)


if __name__ == "__main__":
    unittest.main()
