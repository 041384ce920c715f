<?php

declare(strict_types=1);

namespace Asynq;

use Asynq\Exception\ConnectionException;
use Asynq\Exception\InvalidRequest;
use Asynq\Exception\TooLarge;
use Asynq\Exception\Unavailable;

/**
 * Takes tasks and gives them to handlers, one at a time: run several processes to have more tasks done at once.
 *
 *     $worker = new Worker($client, [
 *         'email:welcome' => function (Task $task): array {
 *             return ['sent' => send($task->payload()['user'])];
 *         },
 *     ]);
 *     $worker->run();
 *
 * What a handler returns is the task's result (json_encode, or a Payload; null: none). What it throws fails the attempt: RetryLater says
 * when to try again, Abandon that there is no use. A task may come more than once, after a crash for one: handlers must bear that.
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
    /** @var list<array<string, mixed>> outcomes that the service does not know of yet */
    private array $outcomes = [];
    private float $since = 0;

    /**
     * @param array<string, callable(Task): mixed> $handlers by type of task
     * @param ?list<string> $queues to take from. Null: those that have the names of the types.
     * @param int $prefetch how many tasks to take at a time, at most 100. More than one is quicker where handlers are: one request takes,
     *     and one settles, many. But each task of them waits for those before it, and so do its outcomes.
     * @param float $wait how long one request waits for tasks, in seconds, at most 60
     * @param ?string $name of the worker, for logs of the service. Null: host and process ID.
     * @param 'process'|'call' $heartbeat who extends leases: "process", a small process of its own (proc_open); or "call", this one,
     *     whenever a handler calls Task::check or Task::isCanceled: it must do so several times while a lease lasts (30 s)
     * @param float $flushAfter with prefetch: how long an outcome waits for others before it is sent, in seconds. No handler is interrupted
     *     for it.
     * @param float $stopTimeout how long to go on after stop() until the last outcomes are known to the service, in seconds
     * @param ?callable(string, array<string, mixed>): void $log is told what goes wrong. Null: error_log.
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
            throw new \InvalidArgumentException('a worker needs handlers: give a callable for each type of task');
        }
        $this->handlers = $handlers;
        $this->queues = $queues ?? array_map(strval(...), array_keys($handlers));
        $this->name ??= gethostname() . ':' . getmypid();
        $this->log = $log ?? static function (string $message, array $context): void {
            error_log('asynq: ' . $message . ' ' . json_encode($context, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES));
        };
    }

    /**
     * Works until stop() is called, by a handler or, if there is pcntl, at SIGTERM or SIGINT. The task at work is ended in order; those that
     * were taken and not begun are given back. Throws only what does not pass by waiting: a token that is no good, for one.
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

    /** Has run() return once the task at work has ended. */
    public function stop(): void
    {
        if (!$this->stopping) {
            $this->stopping = true;
            $this->stopped = microtime(true);
        }
    }

    /** @return callable(): void what puts things back */
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

    /** @return list<Task> none if it is to stop */
    private function take(): array
    {
        for ($pause = 0.1;; $pause *= 2) {
            try {
                return $this->client->take($this->queues, $this->prefetch, $this->wait, $this->name, $this->stops(...));
            } catch (ConnectionException | Unavailable $e) {
                $this->tell('no tasks can be taken for now', $e);
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
                // The last one first: each goes to the front of its queue.
                foreach (array_reverse(array_slice($tasks, $at)) as $rest) {
                    $this->outcomes[] = ['lease' => $rest->lease, 'outcome' => 'release'];
                }
                break;
            }
            $task->heldBy($this->beats);
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
            $task->check(); // it has waited for those before it, and may have been enqueued with a deadline that has passed by now
            $handler = $this->handlers[$task->type] ?? throw new \RuntimeException("this worker has no handler for the type {$task->type}");
            $outcome = ['lease' => $task->lease, 'outcome' => 'done'] + Payload::field('result', $handler($task));
            Http::encode(['outcomes' => [$outcome]]); // what cannot be sent must not hold up others
            return $outcome;
        } catch (\Throwable $e) {
            if (!$e instanceof RetryLater && !$e instanceof Abandon) {
                $this->tell('an attempt has failed', $e, $task);
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
        // There need not be mbstring: what is no UTF-8, also where it is cut, is replaced.
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

    /** Tells the service of all outcomes, again and again until it knows them. */
    private function flush(): void
    {
        $apart = false;
        for ($pause = 0.1; $this->outcomes !== []; $pause *= 2) {
            $this->beats->beat();
            $sent = $apart ? [$this->outcomes[0]] : $this->outcomes;
            $rest = $apart ? array_slice($this->outcomes, 1) : [];
            try {
                $again = [];
                foreach ($this->client->settle($sent) as $i => $problem) {
                    if ($problem instanceof Unavailable) {
                        $again[] = $sent[$i];
                    } elseif ($problem !== null) {
                        $this->tell('an outcome does not count: ' . json_encode($sent[$i]['outcome']), $problem);
                    }
                }
                $this->outcomes = [...$again, ...$rest];
                if ($again === []) {
                    $pause = 0.05;
                    continue;
                }
                $e = new Unavailable('redis', 503, 'some outcomes are not settled yet');
            } catch (ConnectionException | Unavailable $e) {
                // below
            } catch (InvalidRequest | TooLarge $e) {
                if (!$apart) {
                    $apart = true; // one of them is to blame: find out which
                    continue;
                }
                $this->tell('an outcome is refused', $e);
                $this->outcomes = $sent[0]['outcome'] === 'done'
                    ? [['lease' => $sent[0]['lease'], 'outcome' => 'fail', 'error' => 'the result is refused: ' . $e->getMessage()], ...$rest]
                    : $rest;
                continue;
            }
            if ($this->stops() && microtime(true) - $this->stopped > $this->stopTimeout) {
                $this->tell(count($this->outcomes) . ' outcomes are lost: their tasks are tried again', $e);
                $this->outcomes = [];
                return;
            }
            $this->sleep(Http::pause($pause, $e));
        }
    }

    private function sleep(float $seconds): void
    {
        usleep((int) (1e6 * $seconds)); // a signal ends it
    }

    private function tell(string $message, ?\Throwable $e, ?Task $task = null): void
    {
        ($this->log)($message, array_filter([
            'error' => $e?->getMessage(), 'class' => $e === null ? null : $e::class,
            'queue' => $task?->queue, 'id' => $task?->id, 'type' => $task?->type,
        ]));
    }
}
