<?php

declare(strict_types=1);

use Asynq\Abandon;
use Asynq\NewTask;
use Asynq\Node;
use Asynq\Payload;
use Asynq\Task;

return [
    'return values are results' => static function (): void {
        $type = fresh('results');
        $results = ['text' => Payload::text('not JSON'), 'bytes' => Payload::bytes("\xff"), 'json' => ['a' => [1.5, null]], 'none' => null];
        foreach (array_keys($results) as $id) {
            client()->enqueue(new NewTask($type, id: $id, retention: '1h'));
        }
        work([$type => static fn (Task $task): mixed => $results[$task->id]], 4, prefetch: 3);
        foreach ($results as $id => $result) {
            $got = client()->get($type, $id);
            same('completed', $got->state, $id);
            same($result instanceof Payload ? $result->bytes : $result, $got->result instanceof Payload ? $got->result->bytes : $got->result, $id);
        }
    },

    'partition keys' => static function (): void {
        $type = fresh('partitions');
        client()->enqueueBatch([new NewTask($type, id: 'a', retention: '1h', partitionKey: 'customer 7'), new NewTask($type, id: 'b', retention: '1h')]);
        work([$type => static fn (Task $task): ?string => $task->partitionKey], 2);
        same(['customer 7', null], [client()->get($type, 'a')->result, client()->get($type, 'b')->result]);
        same('customer 7', client()->get($type, 'a')->partitionKey);
    },

    'workflow' => static function (): void {
        $type = fresh('workflow');
        $c = client();
        $boxes = 0;
        $info = $c->createWorkflow($type, [
            new Node('charge', new NewTask("$type/charge", retention: '1h')),
            new Node('pack', [new NewTask("$type/pack", 1), new NewTask("$type/pack", 2)], after: ['charge']),
            new Node('ship', new NewTask("$type/ship"), after: ['pack']),
            new Node('refund', new NewTask("$type/refund"), afterFailure: ['pack']),
        ]);
        same([5, 5], [$info->total, $info->unfinished]);
        $handlers = [
            "$type/charge" => static fn (): array => ['paid' => 7],
            "$type/pack" => static function (Task $task) use (&$boxes): void {
                if ($task->payload() === 2 && $boxes === 0) {
                    throw new Abandon('no box');
                }
            },
            "$type/ship" => static fn (Task $task): array => [$task->resultOf('charge'), $task->workflow, $task->node],
            "$type/refund" => static fn (): mixed => null,
        ];
        work($handlers, 4);
        $info = $c->waitWorkflow($type);
        same(['blocked', 'failed', 'succeeded'], [$info->status, $info->nodes['pack']->status, $info->nodes['refund']->status]);
        same(['paid' => 7], $c->wait($info->nodes['charge']->queues[0], $info->nodes['charge']->taskId)->result, 'the task of a node');
        $boxes = 1;
        $c->retryWorkflow($type);
        work($handlers, 2);
        $info = $c->waitWorkflow($type);
        same(['succeeded', true], [$info->status, $info->endedAt !== null]);
        same([['paid' => 7], $type, 'ship'], $c->nodeResult($type, 'ship'), 'the result of a node');
    },

    'batch with callbacks' => static function (): void {
        $type = fresh('batch');
        $c = client();
        $tasks = [new NewTask($type, 1), new NewTask($type, 2), new NewTask($type, 3)];
        $c->createBatch($type, $tasks, onSuccess: new NewTask($type, 'done'), onFailure: new NewTask($type, 'broken'), retention: 3600);
        $ran = [];
        work([$type => static function (Task $task) use (&$ran): void {
            $ran[] = $task->payload();
        }], 4);
        $batch = $c->waitBatch($type);
        same(['succeeded', 'succeeded', 3, 'done'], [$batch->status, $batch->members, $batch->succeeded, $ran[3]]);
        same('omitted', $batch->callbacks['on_failure']->status);
    },

    'progress' => static function (): void {
        $type = fresh('progress');
        client()->enqueue(new NewTask($type, id: 'x', retention: '1h'));
        work([$type => static function (Task $task) use ($type): void {
            while (client()->get($type, 'x')->progress === null) { // requests that fail are dropped
                $task->progress(1, 'ä done');
            }
        }], 1);
        $got = client()->get($type, 'x');
        same([1, 'ä done'], [(int) $got->progress['fraction'], $got->progress['note']], 'progress');
        same([], $got->attempts, 'attempts');
    },

    'exceptions fail the attempt' => static function (): void {
        $type = fresh('failures');
        $throws = [
            'plain' => new RuntimeException("no \xff UTF-8"),
            'later' => new Asynq\RetryLater('2h', 'rate limit'),
            'never' => new Asynq\Abandon('no such user'),
            'long' => new RuntimeException(str_repeat('€', 5000)),
        ];
        foreach (array_keys($throws) as $id) {
            client()->enqueue(new NewTask($type, id: $id));
        }
        work([$type => static fn (Task $task) => throw $throws[$task->id]], 4, $log);
        $plain = client()->get($type, 'plain');
        same(['retry', 1], [$plain->state, $plain->retried]);
        same("RuntimeException: no \u{fffd} UTF-8", $plain->lastError, 'error');
        same(2, count($log), 'log lines');
        $later = client()->get($type, 'later');
        same(['retry', 'rate limit'], [$later->state, $later->lastError]);
        same(true, $later->nextProcessAt > new DateTimeImmutable('+100 minutes'), 'later');
        $never = client()->get($type, 'never');
        same(['archived', 'no such user'], [$never->state, $never->lastError]);
        same(true, strlen(client()->get($type, 'long')->lastError) < 5000, 'a long error is cut');
    },

    'invalid results and types without handlers' => static function (): void {
        $type = fresh('unsendable');
        client()->enqueue(new NewTask($type, id: 'nan'));
        work([$type => static fn () => NAN], 1, $log);
        same(true, str_starts_with(client()->get($type, 'nan')->lastError, 'JsonException'), 'error');
        foreach ([509, 510, 511] as $depth) { // json_encode has a limit of 512, and the result is nested in the request
            client()->enqueue(new NewTask($type, $depth, id: "deep$depth", maxRetry: 0));
            $nested = array_reduce(range(2, $depth), static fn (array $inner): array => [$inner], []);
            work([$type => static fn () => $nested], 1, $log);
        }
        same(true, str_starts_with(client()->get($type, 'deep511')->lastError, 'JsonException'), 'error');
        client()->enqueue(new NewTask('another', id: 'other', queue: $type, maxRetry: 0));
        client()->enqueue(new NewTask($type, id: 'last'));
        work([$type => static fn () => null], 1, $log, prefetch: 1);
        same('archived', client()->get($type, 'other')->state, 'no handler');
    },

    'a rejected result does not block others' => static function (): void {
        $type = fresh('huge');
        client()->enqueue(new NewTask($type, id: 'huge', maxRetry: 0));
        client()->enqueue(new NewTask($type, id: 'small', retention: '1h'));
        work([$type => static fn (Task $t) => $t->id === 'huge' ? str_repeat('x', 9 << 20) : 1], 2, $log, prefetch: 2, flushAfter: 10.0);
        same('completed', client()->get($type, 'small')->state, 'small');
        $huge = client()->get($type, 'huge');
        same(['archived', true], [$huge->state, str_contains($huge->lastError, 'result rejected')]);
    },

    'tasks that have not started return in order' => static function (): void {
        $type = fresh('back');
        foreach (range(1, 5) as $n) {
            client()->enqueue(new NewTask($type, $n));
        }
        $seen = [];
        $note = static function (Task $task) use (&$seen): void {
            $seen[] = [$task->payload(), $task->attempt];
        };
        work([$type => $note], 2, prefetch: 5);
        same(3, client()->stats($type)->pending, 'pending');
        work([$type => $note], 3);
        same([[1, 1], [2, 1], [3, 1], [4, 1], [5, 1]], $seen, 'order');
    },

    'a canceled handler stops with either heartbeat' => static function (): void {
        foreach (['process', 'call'] as $heartbeat) {
            $type = fresh('cancel');
            client()->enqueue(new NewTask($type, id: 'x'));
            $handler = static function (Task $task) use ($type): void {
                client()->cancel($type, 'x');
                for ($end = microtime(true) + 20; microtime(true) < $end; usleep(10_000)) {
                    $task->check();
                }
                throw new LogicException('not canceled');
            };
            work([$type => $handler], 1, $log, heartbeat: $heartbeat);
            $info = client()->get($type, 'x');
            same(true, str_contains((string) $info->lastError, 'cancel'), "$heartbeat: {$info->state} {$info->lastError}");
        }
    },

    'a lost lease is detected' => static function (): void {
        $type = fresh('lost');
        client()->enqueue(new NewTask($type, id: 'x', retention: '1h'));
        $handler = static function (Task $task): void {
            for ($settled = false; !$settled;) {
                try {
                    $settled = client()->settle([['lease' => $task->lease, 'outcome' => 'done']]) === [null]; // like a lost lease
                } catch (Asynq\Exception\ConnectionException) {
                }
            }
            for ($end = microtime(true) + 20; microtime(true) < $end; usleep(10_000)) {
                if ($task->isCanceled()) {
                    return;
                }
            }
            throw new LogicException('loss not detected');
        };
        work([$type => $handler], 1, $log);
        same([], $log ?? [], 'log');
    },

    'the deadline ends an attempt' => static function (): void {
        $type = fresh('deadline');
        client()->enqueue(new NewTask($type, id: 'x', timeout: 1));
        $handler = static function (Task $task): void {
            same(false, $task->isCanceled(), 'at first');
            while (true) {
                $task->check();
                usleep(10_000);
            }
        };
        work([$type => $handler], 1, $log);
        same(true, str_contains((string) client()->get($type, 'x')->lastError, 'deadline'), (string) client()->get($type, 'x')->lastError);
    },

    'an overdue task is not started' => static function (): void {
        $type = fresh('overdue');
        client()->enqueue(new NewTask($type, id: 'x', maxRetry: 0, deadline: new DateTimeImmutable('-1 hour')));
        client()->enqueue(new NewTask($type, id: 'last'));
        work([$type => static fn () => null], 1, $log);
        same('archived', client()->get($type, 'x')->state, 'state');
        same(true, str_contains((string) client()->get($type, 'x')->lastError, 'deadline'), 'error');
    },

    'a worker needs a valid token' => static function (): void {
        $worker = new Asynq\Worker(client('ASYNQ_READ_TOKEN'), [fresh('none') => static fn () => null]);
        throws(Asynq\Exception\AccessDenied::class, static fn () => $worker->run());
        throws(InvalidArgumentException::class, static fn () => new Asynq\Worker(client(), []));
    },

    'a killed heartbeat process is restarted' => static function (): void {
        if (!is_dir('/proc') || !function_exists('posix_kill')) {
            return; // cannot find the process
        }
        $type = fresh('beats');
        client()->enqueue(new NewTask($type, id: 'x', retention: '1h'));
        $handler = static function (Task $task): int {
            $own = array_filter(glob('/proc/[0-9]*/stat'), static function (string $file): bool {
                $stat = explode(' ', (string) @file_get_contents($file));
                return (int) ($stat[3] ?? 0) === getmypid();
            });
            same(1, count($own), 'children');
            posix_kill((int) basename(dirname(current($own))), SIGKILL);
            for ($end = microtime(true) + 3; microtime(true) < $end; usleep(10_000)) {
                $task->check();
            }
            return $task->attempt;
        };
        work([$type => $handler], 1, $log);
        same(1, client()->get($type, 'x')->result, 'attempts');
    },
];
