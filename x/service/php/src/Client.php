<?php

declare(strict_types=1);

namespace Asynq;

use Asynq\Exception\AsynqException;
use Asynq\Exception\ConnectionException;
use Asynq\Exception\ProblemException;
use Asynq\Exception\Unavailable;

/**
 * Talks to the queue service. One client keeps one connection: do not share it between processes.
 *
 * What is not answered is sent again, for retryFor seconds in all. That is safe: a task has an ID, by which the service knows it again.
 * A change that was made, but not answered, meets itself when it is repeated: delete() may throw NotFound then, run() and archive() WrongState.
 * All methods throw an AsynqException: a ProblemException if the service refuses, a ConnectionException if it cannot be reached.
 */
final class Client
{
    /** How many tasks the service takes in one request. */
    public const BATCH = 1000;

    private readonly Http $http;

    /**
     * @param string $url such as "https://queue.example.com"
     * @param string $token the secret of a token that has the scopes for what is called
     * @param float $timeout how long an answer may take, in seconds; waits come on top
     * @param float $retryFor for how many seconds to try again what was not answered; 0: not at all
     * @param array<int, mixed> $curlOptions more options of curl, such as CURLOPT_CAINFO or CURLOPT_SSLCERT
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

    /** Enqueues a task, or returns the one that is there with the same ID, type and payload. Scope: enqueue. */
    public function enqueue(NewTask $task): TaskInfo
    {
        return new TaskInfo($this->http->repeat('POST', '/v1/tasks', $task->fields())->task);
    }

    /**
     * Enqueues many tasks, a thousand at a time. Each has a result of its own, in their order. Where the service cannot be reached, what
     * came before stays enqueued: call it again with the same IDs.
     *
     * @param iterable<NewTask> $tasks
     * @return list<TaskInfo|ProblemException>
     */
    public function enqueueBatch(iterable $tasks): array
    {
        $results = [];
        $batch = [];
        foreach ($tasks as $task) {
            $batch[] = $task->fields();
            if (count($batch) === self::BATCH) {
                array_push($results, ...$this->sendBatch($batch));
                $batch = [];
            }
        }
        return $batch === [] ? $results : [...$results, ...$this->sendBatch($batch)];
    }

    /**
     * @param list<array<string, mixed>> $batch
     * @return list<TaskInfo|ProblemException>
     */
    private function sendBatch(array $batch): array
    {
        $results = [];
        $open = array_keys($batch);
        $end = microtime(true) + $this->retryFor;
        for ($pause = 0.1;; $pause *= 2) {
            $answer = $this->http->repeat('POST', '/v1/tasks/batch', ['tasks' => array_map(static fn (int $i) => $batch[$i], $open)]);
            $again = [];
            foreach ($answer->results as $at => $r) {
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

    /** What is known of a task. Scope: read. */
    public function get(string $queue, string $id): TaskInfo
    {
        return new TaskInfo($this->http->repeat('GET', self::task($queue, $id))->task);
    }

    /**
     * Waits until a task is completed or archived, for so many seconds at most, and returns what is known of it then: see
     * TaskInfo::hasEnded. Throws TaskGone if the task ends and has no retention. Scope: read.
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

    /** Asks the worker of an active task to stop. Scope: manage. */
    public function cancel(string $queue, string $id): void
    {
        $this->http->repeat('POST', self::task($queue, $id) . '/cancel', []);
    }

    /**
     * Has a task run at another time. Scope: manage.
     *
     * @param \DateTimeInterface|int|float|string $when a time, or how long from now: seconds, or a duration such as "1h30m"
     */
    public function reschedule(string $queue, string $id, \DateTimeInterface|int|float|string $when): void
    {
        $body = $when instanceof \DateTimeInterface ? ['at' => Format::time($when)] : ['in' => Format::duration($when)];
        $this->http->repeat('POST', self::task($queue, $id) . '/reschedule', $body);
    }

    /** Has a task run now that waits for its time, or is archived. Scope: manage. */
    public function run(string $queue, string $id): void
    {
        $this->http->repeat('POST', self::task($queue, $id) . '/run', []);
    }

    /** Archives a task: it stays, and is not run. Scope: manage. */
    public function archive(string $queue, string $id): void
    {
        $this->http->repeat('POST', self::task($queue, $id) . '/archive', []);
    }

    /**
     * The queues that the token is good for. Scope: read.
     *
     * @return list<QueueInfo>
     */
    public function queues(): array
    {
        return array_map(static fn (object $q) => new QueueInfo($q), $this->http->repeat('GET', '/v1/queues')->queues);
    }

    /** The figures of a queue. Scope: read. */
    public function stats(string $queue): QueueInfo
    {
        return new QueueInfo($this->http->repeat('GET', self::queue($queue))->queue);
    }

    /** Lets no task of the queue be taken until it is resumed. Scope: manage. */
    public function pause(string $queue): void
    {
        $this->http->repeat('POST', self::queue($queue) . '/pause', []);
    }

    /** Ends a pause. Scope: manage. */
    public function resume(string $queue): void
    {
        $this->http->repeat('POST', self::queue($queue) . '/resume', []);
    }

    /**
     * Waits for tasks, and takes up to n of them. Worker does this for you. It is sent once. Where stop says true, the wait is given up, and
     * [] returned. Scope: work.
     *
     * @param list<string> $queues
     * @param ?callable(): bool $stop asked about once a second
     * @return list<Task>
     */
    public function take(array $queues, int $n = 1, float $wait = 30.0, ?string $worker = null, ?callable $stop = null): array
    {
        $body = ['queues' => $queues, 'n' => $n, 'wait' => Format::duration($wait)];
        if ($worker !== null) {
            $body['worker'] = $worker;
        }
        try {
            $answer = $this->http->once('POST', '/v1/take', $body, $wait, $stop);
        } catch (ConnectionException $e) {
            if ($stop !== null && $stop()) {
                return [];
            }
            throw $e;
        }
        return array_map(static fn (object $t) => new Task($t), $answer->tasks);
    }

    /**
     * Has leases last longer: a heartbeat. It is sent once. Scope: work.
     *
     * @param list<string> $leases
     * @return array<string, true|\Throwable> by lease: true, or Canceled, or the ProblemException of one that is lost
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
     * Tells how attempts ended. It is sent once, and may be sent again: an outcome counts once. Scope: work.
     *
     * @param list<array<string, mixed>> $outcomes as docs/SERVICE_API.md has them
     * @return list<?ProblemException> in their order: null where it is settled
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
     * What another process needs to talk to the service as this client does.
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
