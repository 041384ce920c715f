<?php

declare(strict_types=1);

namespace Asynq;

use Asynq\Exception\ConnectionException;
use Asynq\Exception\InvalidRequest;
use Asynq\Exception\TooLarge;
use Asynq\Exception\Unavailable;

/**
 * Takes tasks and runs their handlers, one at a time. Run several processes for concurrency.
 *
 *     $worker = new Worker($client, [
 *         'email:welcome' => function (Task $task): array {
 *             return ['sent' => send($task->payload()['user'])];
 *         },
 *     ]);
 *     $worker->run();
 *
 * The return value of a handler is the result of the task: a value for json_encode, a Payload, or
 * null for none. An exception fails the attempt: RetryLater sets the retry delay, Abandon archives
 * the task. Delivery is at least once: handlers must be idempotent, since a task may run again, for
 * example after a crash.
 */
final class Worker
{
    private const LONGEST_ERROR = 4096;

    /** @var array<string, callable(Task): mixed> */
    private readonly array $handlers;
    /** @var list<string> */
    private readonly array $queues;
    /** @var callable(string, array<string, mixed>): void */
    private $log;

    private bool $stopping = false;
    private float $stopped = 0;
    private ?Heartbeat $beats = null;
    /** @var list<array<string, mixed>> unsettled outcomes */
    private array $outcomes = [];
    private float $since = 0;

    /**
     * @param array<string, callable(Task): mixed> $handlers by task type
     * @param ?list<string> $queues queues to take from. The default is the task types.
     * @param int $prefetch number of tasks per request, at most 100. More than one improves the
     *     throughput of fast handlers, but each task waits for the previous ones of its batch.
     * @param float $wait how long a request waits for tasks, in seconds, at most 60
     * @param ?string $name name of the worker in lists. The default is host and process ID.
     * @param 'process'|'call' $heartbeat what extends leases: "process", a separate process
     *     (proc_open); or "call", calls of Task::check and Task::isCanceled, of which handlers need
     *     several per lease duration (30 s)
     * @param float $flushAfter with prefetch: how long outcomes are collected before they are sent,
     *     in seconds. Handlers are not interrupted.
     * @param float $stopTimeout how long to retry settling the last outcomes after stop(), in
     *     seconds
     * @param ?callable(string, array<string, mixed>): void $log receives warnings and errors. The
     *     default is error_log.
     */
    public function __construct(
        private readonly Client $client,
        array $handlers,
        ?array $queues = null,
        private readonly int $prefetch = 1,
        private readonly float $wait = 30.0,
        private ?string $name = null,
        private readonly string $heartbeat = 'process',
        private readonly float $flushAfter = 0.1,
        private readonly float $stopTimeout = 30.0,
        ?callable $log = null,
    ) {
        if ($handlers === []) {
            throw new \InvalidArgumentException('a worker needs handlers: pass a callable for each task type');
        }
        $this->handlers = $handlers;
        $this->queues = $queues ?? array_map(strval(...), array_keys($handlers));
        $this->name ??= gethostname() . ':' . getmypid();
        $this->log = $log ?? static function (string $message, array $context): void {
            error_log('asynq: ' . $message . ' ' . json_encode($context, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES));
        };
    }

    /**
     * Processes tasks until stop() is called or, with pcntl, SIGTERM or SIGINT is received. The
     * active task finishes; tasks that have not started return to their queues. Throws only
     * permanent errors, such as an invalid token.
     */
    public function run(): void
    {
        $this->stopping = false;
        $restore = $this->catchSignals();
        $this->beats = $this->heartbeat === 'process' && HeartbeatProcess::possible()
            ? new HeartbeatProcess($this->client)
            : new HeartbeatLoop($this->client);
        try {
            while (!$this->stopping) {
                $this->work($this->take());
            }
        } finally {
            $this->beats->stop();
            $this->beats = null;
            $restore();
        }
    }

    /** Makes run() return after the active task. */
    public function stop(): void
    {
        if (!$this->stopping) {
            $this->stopping = true;
            $this->stopped = microtime(true);
        }
    }

    /** @return callable(): void restores the previous handlers */
    private function catchSignals(): callable
    {
        if (!function_exists('pcntl_signal')) {
            return static function (): void {
            };
        }
        $async = pcntl_async_signals(true);
        $signals = [SIGTERM, SIGINT];
        $before = array_map(pcntl_signal_get_handler(...), $signals);
        foreach ($signals as $signal) {
            pcntl_signal($signal, $this->stop(...));
        }
        return static function () use ($async, $signals, $before): void {
            array_map(static fn (int $s, mixed $b) => pcntl_signal($s, $b), $signals, $before);
            pcntl_async_signals($async);
        };
    }

    private function stops(): bool
    {
        if (function_exists('pcntl_signal_dispatch')) {
            pcntl_signal_dispatch();
        }
        return $this->stopping;
    }

    /** @return list<Task> empty if the worker stops */
    private function take(): array
    {
        for ($pause = 0.1;; $pause *= 2) {
            try {
                return $this->client->take($this->queues, $this->prefetch, $this->wait, $this->name, $this->stops(...));
            } catch (ConnectionException | Unavailable $e) {
                $this->warn('cannot take tasks, retrying', $e);
                $this->sleep(Http::pause($pause, $e));
            }
            if ($this->stops()) {
                return [];
            }
        }
    }

    /** @param list<Task> $tasks */
    private function work(array $tasks): void
    {
        if ($tasks === []) {
            return;
        }
        $this->beats->watch($tasks);
        foreach ($tasks as $at => $task) {
            if ($this->stops()) {
                // In reverse order: each returns to the front of its queue.
                foreach (array_reverse(array_slice($tasks, $at)) as $rest) {
                    $this->outcomes[] = ['lease' => $rest->lease, 'outcome' => 'release'];
                }
                break;
            }
            $task->setHeartbeat($this->beats);
            $this->note($this->attempt($task));
            if ($this->outcomes !== [] && microtime(true) - $this->since >= $this->flushAfter) {
                $this->flush();
            }
        }
        $this->flush();
        $this->beats->watch([]);
    }

    /** @return array<string, mixed> */
    private function attempt(Task $task): array
    {
        try {
            $task->check(); // the deadline may have passed while the task waited
            $handler = $this->handlers[$task->type] ?? throw new \RuntimeException("no handler for task type {$task->type}");
            $outcome = ['lease' => $task->lease, 'outcome' => 'done'] + Payload::field('result', $handler($task));
            Http::encode(['outcomes' => [$outcome]]); // an invalid result must not block other outcomes
            return $outcome;
        } catch (\Throwable $e) {
            if (!$e instanceof RetryLater && !$e instanceof Abandon) {
                $this->warn('attempt failed', $e, $task);
            }
            return self::failure($task, $e);
        }
    }

    /** @return array<string, mixed> */
    private static function failure(Task $task, \Throwable $e): array
    {
        $message = $e->getMessage() === '' ? $e::class : $e->getMessage();
        if (!$e instanceof RetryLater && !$e instanceof Abandon && !$e instanceof Canceled) {
            $message = $e::class . ': ' . $message;
        }
        // Replaces invalid UTF-8, also where the text is cut, without mbstring.
        $text = json_decode((string) json_encode(substr($message, 0, self::LONGEST_ERROR), JSON_INVALID_UTF8_SUBSTITUTE));
        return ['lease' => $task->lease, 'outcome' => 'fail', 'error' => $text]
            + ($e instanceof RetryLater ? ['retry_in' => Format::duration($e->in)] : [])
            + ($e instanceof Abandon ? ['skip_retry' => true] : []);
    }

    /** @param array<string, mixed> $outcome */
    private function note(array $outcome): void
    {
        if ($this->outcomes === []) {
            $this->since = microtime(true);
        }
        $this->outcomes[] = $outcome;
    }

    /** Settles all outcomes and retries until they are settled. */
    private function flush(): void
    {
        $single = false;
        for ($pause = 0.1; $this->outcomes !== []; $pause *= 2) {
            $this->beats->beat();
            $sent = $single ? [$this->outcomes[0]] : $this->outcomes;
            $rest = $single ? array_slice($this->outcomes, 1) : [];
            try {
                $again = [];
                foreach ($this->client->settle($sent) as $i => $problem) {
                    if ($problem instanceof Unavailable) {
                        $again[] = $sent[$i];
                    } elseif ($problem !== null) {
                        $this->warn('outcome rejected: ' . json_encode($sent[$i]['outcome']), $problem);
                    }
                }
                $this->outcomes = [...$again, ...$rest];
                if ($again === []) {
                    $pause = 0.05;
                    continue;
                }
                $e = new Unavailable('redis', 503, 'some outcomes are not settled');
            } catch (ConnectionException | Unavailable $e) {
                // handled below
            } catch (InvalidRequest | TooLarge $e) {
                if (!$single) {
                    $single = true; // find the invalid one
                    continue;
                }
                $this->warn('outcome rejected as invalid', $e);
                $this->outcomes = $sent[0]['outcome'] === 'done'
                    ? [['lease' => $sent[0]['lease'], 'outcome' => 'fail', 'error' => 'result rejected: ' . $e->getMessage()], ...$rest]
                    : $rest;
                continue;
            }
            if ($this->stops() && microtime(true) - $this->stopped > $this->stopTimeout) {
                $this->warn(count($this->outcomes) . ' outcomes lost: their tasks will be retried', $e);
                $this->outcomes = [];
                return;
            }
            $this->sleep(Http::pause($pause, $e));
        }
    }

    private function sleep(float $seconds): void
    {
        usleep((int) (1e6 * $seconds)); // interrupted by signals
    }

    private function warn(string $message, ?\Throwable $e, ?Task $task = null): void
    {
        ($this->log)($message, array_filter([
            'error' => $e?->getMessage(), 'class' => $e === null ? null : $e::class,
            'queue' => $task?->queue, 'id' => $task?->id, 'type' => $task?->type,
        ]));
    }
}
