<?php

declare(strict_types=1);

namespace Asynq;

use Asynq\Exception\AsynqException;
use Asynq\Exception\ConnectionException;
use Asynq\Exception\ProblemException;
use Asynq\Exception\Unavailable;

/**
 * Client of the queue service. It keeps one connection: do not share it between processes.
 *
 * Requests without a response are retried for retryFor seconds in total. Enqueueing is idempotent,
 * because every task has an ID. If the response to a change was lost, the retry may fail: delete()
 * may throw NotFound, run() and archive() WrongState. All methods throw AsynqException:
 * ProblemException if the service rejects the request, ConnectionException if it is unreachable.
 */
final class Client
{
    use Flows;

    /** Maximum number of tasks in one request. */
    public const BATCH = 1000;

    private readonly Http $http;

    /**
     * @param string $url such as "https://queue.example.com"
     * @param string $token secret of a token with the scopes of the methods that are called
     * @param float $timeout response timeout in seconds, in addition to waits
     * @param float $retryFor how long to retry requests without a response, in seconds; 0 disables
     *     retries
     * @param array<int, mixed> $curlOptions additional curl options, such as CURLOPT_CAINFO or
     *     CURLOPT_SSLCERT
     */
    public function __construct(
        private readonly string $url,
        #[\SensitiveParameter] private readonly string $token,
        float $timeout = 30.0,
        private readonly float $retryFor = 30.0,
        private readonly array $curlOptions = [],
    ) {
        $this->http = new Http($url, $token, $timeout, $retryFor, $curlOptions);
    }

    /**
     * Enqueues a task, or returns the existing one with the same ID, type and payload. Scope:
     * enqueue.
     */
    public function enqueue(NewTask $task): TaskInfo
    {
        return new TaskInfo($this->http->repeat('POST', '/v1/tasks', $task->fields())->task);
    }

    /**
     * Enqueues many tasks, 1,000 per request, and returns one result per task, in order. If the
     * service becomes unreachable, previous batches stay enqueued: call it again with the same IDs.
     *
     * @param iterable<NewTask> $tasks
     * @return list<TaskInfo|ProblemException>
     */
    public function enqueueBatch(iterable $tasks): array
    {
        return $this->sendTasks('/v1/tasks/batch', $tasks);
    }

    /**
     * @param iterable<NewTask> $tasks
     * @return list<TaskInfo|ProblemException>
     */
    private function sendTasks(string $path, iterable $tasks): array
    {
        $results = [];
        $batch = [];
        foreach ($tasks as $task) {
            $batch[] = $task->fields();
            if (count($batch) === self::BATCH) {
                array_push($results, ...$this->sendBatch($path, $batch));
                $batch = [];
            }
        }
        return $batch === [] ? $results : [...$results, ...$this->sendBatch($path, $batch)];
    }

    /**
     * @param list<array<string, mixed>> $batch
     * @return list<TaskInfo|ProblemException>
     */
    private function sendBatch(string $path, array $batch): array
    {
        $results = [];
        $open = array_keys($batch);
        $end = microtime(true) + $this->retryFor;
        for ($pause = 0.1;; $pause *= 2) {
            $response = $this->http->repeat('POST', $path, ['tasks' => array_map(static fn (int $i) => $batch[$i], $open)]);
            $again = [];
            foreach ($response->results as $at => $r) {
                $i = $open[$at];
                $results[$i] = isset($r->task) ? new TaskInfo($r->task) : ProblemException::of($r->problem, $r->problem->status);
                if ($results[$i] instanceof Unavailable) {
                    $again[] = $i;
                }
            }
            if ($again === [] || microtime(true) + $pause > $end) {
                ksort($results);
                return array_values($results);
            }
            usleep((int) (1e6 * Http::pause($pause, $results[$again[0]])));
            $open = $again;
        }
    }

    /** Returns a task. Scope: read. */
    public function get(string $queue, string $id): TaskInfo
    {
        return new TaskInfo($this->http->repeat('GET', self::task($queue, $id))->task);
    }

    /**
     * Waits until a task is completed or archived, at most $seconds, and returns it; see
     * TaskInfo::hasEnded. Throws TaskGone if the task ends without a retention. Scope: read.
     */
    public function wait(string $queue, string $id, float $seconds = 30.0): TaskInfo
    {
        $end = microtime(true) + $seconds;
        do {
            $step = min(max($end - microtime(true), 0.0), 30.0);
            $path = self::task($queue, $id) . '?wait=' . rawurlencode((string) Format::duration($step));
            $info = new TaskInfo($this->http->repeat('GET', $path, null, $step)->task);
        } while (!$info->hasEnded() && microtime(true) < $end);
        return $info;
    }

    /** Deletes a task that is not active. Scope: manage. */
    public function delete(string $queue, string $id): void
    {
        $this->http->repeat('DELETE', self::task($queue, $id));
    }

    /** Cancels an active task: its worker receives a stop request. Scope: manage. */
    public function cancel(string $queue, string $id): void
    {
        $this->http->repeat('POST', self::task($queue, $id) . '/cancel', []);
    }

    /**
     * Changes when a task runs. Scope: manage.
     *
     * @param \DateTimeInterface|int|float|string $when a time, or a delay: seconds, or a duration
     *     such as "1h30m"
     */
    public function reschedule(string $queue, string $id, \DateTimeInterface|int|float|string $when): void
    {
        $body = $when instanceof \DateTimeInterface ? ['at' => Format::time($when)] : ['in' => Format::duration($when)];
        $this->http->repeat('POST', self::task($queue, $id) . '/reschedule', $body);
    }

    /** Runs a scheduled, retry, archived or completed task now. Scope: manage. */
    public function run(string $queue, string $id): void
    {
        $this->http->repeat('POST', self::task($queue, $id) . '/run', []);
    }

    /** Archives a pending, scheduled or retry task. Scope: manage. */
    public function archive(string $queue, string $id): void
    {
        $this->http->repeat('POST', self::task($queue, $id) . '/archive', []);
    }

    /**
     * Returns the queues that the token has access to. Scope: read.
     *
     * @return list<QueueInfo>
     */
    public function queues(): array
    {
        return array_map(static fn (object $q) => new QueueInfo($q), $this->http->repeat('GET', '/v1/queues')->queues);
    }

    /** Returns the statistics of a queue. Scope: read. */
    public function stats(string $queue): QueueInfo
    {
        return new QueueInfo($this->http->repeat('GET', self::queue($queue))->queue);
    }

    /** Pauses a queue: no tasks are taken from it until it is resumed. Scope: manage. */
    public function pause(string $queue): void
    {
        $this->http->repeat('POST', self::queue($queue) . '/pause', []);
    }

    /** Resumes a paused queue. Scope: manage. */
    public function resume(string $queue): void
    {
        $this->http->repeat('POST', self::queue($queue) . '/resume', []);
    }

    /**
     * Deletes an empty queue; with $force, also its tasks, provided that none is active. Scope:
     * manage.
     */
    public function deleteQueue(string $queue, bool $force = false): void
    {
        $this->http->repeat('DELETE', self::queue($queue) . ($force ? '?force=true' : ''));
    }

    /**
     * Waits for tasks and takes up to $n of them. Worker does this for you. The request is not
     * retried. If $stop returns true, the wait ends and the result is empty. Scope: work.
     *
     * @param list<string> $queues
     * @param ?callable(): bool $stop called about once per second
     * @return list<Task>
     */
    public function take(array $queues, int $n = 1, float $wait = 30.0, ?string $worker = null, ?callable $stop = null): array
    {
        $body = ['queues' => $queues, 'n' => $n, 'wait' => Format::duration($wait)];
        if ($worker !== null) {
            $body['worker'] = $worker;
        }
        try {
            $response = $this->http->once('POST', '/v1/take', $body, $wait, $stop);
        } catch (ConnectionException $e) {
            if ($stop !== null && $stop()) {
                return [];
            }
            throw $e;
        }
        return array_map(fn (object $t) => new Task($t, $this), $response->tasks);
    }

    /**
     * Extends leases (heartbeat). The request is not retried. Scope: work.
     *
     * @param list<string> $leases
     * @return array<string, true|\Throwable> by lease: true, Canceled, or a ProblemException, such
     *     as LeaseLost
     */
    public function extend(array $leases): array
    {
        $results = [];
        foreach ($this->http->once('POST', '/v1/leases/extend', ['leases' => $leases])->results as $r) {
            $results[$r->lease] = match (true) {
                isset($r->problem) => ProblemException::of($r->problem, $r->problem->status),
                $r->canceled ?? false => new Canceled('the task was canceled'),
                default => true,
            };
        }
        return $results;
    }

    /**
     * Stores the progress of a task, from 0 to 1. The request is not retried. Scope: work.
     *
     * @throws AsynqException
     */
    public function setProgress(string $lease, float $fraction, string $note = ''): void
    {
        $this->http->once('POST', '/v1/leases/' . rawurlencode($lease) . '/progress', ['fraction' => $fraction, 'note' => $note]);
    }

    /**
     * Settles leases with the outcomes of attempts. The request is not retried, but may be: an
     * outcome counts once. Scope: work.
     *
     * @param list<array<string, mixed>> $outcomes as described in docs/SERVICE_API.md
     * @return list<?ProblemException> in order; null means settled
     * @throws AsynqException
     */
    public function settle(array $outcomes): array
    {
        return array_map(
            static fn (object $r) => isset($r->problem) ? ProblemException::of($r->problem, $r->problem->status) : null,
            $this->http->once('POST', '/v1/leases/settle', ['outcomes' => $outcomes])->results,
        );
    }

    /**
     * Returns the settings for a client in another process.
     *
     * @internal
     * @return array{url: string, token: string, curl: array<int, mixed>}
     */
    public function settings(): array
    {
        return ['url' => $this->url, 'token' => $this->token, 'curl' => $this->curlOptions];
    }

    private static function queue(string $queue): string
    {
        return '/v1/queues/' . rawurlencode($queue);
    }

    private static function task(string $queue, string $id): string
    {
        return self::queue($queue) . '/tasks/' . rawurlencode($id);
    }
}
