<?php

declare(strict_types=1);

use Asynq\Exception;
use Asynq\NewTask;
use Asynq\Node;
use Asynq\Payload;

return [
    'enqueue with all options' => static function (): void {
        $type = fresh('options');
        $at = new DateTimeImmutable('+1 hour');
        $task = new NewTask(
            $type, ['user' => 42, 'tags' => [], 'map' => (object) [], 'f' => 1.0, 'text' => 'ä/€'], id: 'a/b?c d', queue: "$type-queue",
            headers: ['trace' => 'x'], maxRetry: 3, timeout: 90, deadline: new DateTimeImmutable('+2 hours'), processAt: $at,
            retention: '1h',
        );
        $info = client()->enqueue($task);
        same(['a/b?c d', "$type-queue", $type, 'scheduled', 3], [$info->id, $info->queue, $info->type, $info->state, $info->maxRetry]);
        $got = client()->get($info->queue, 'a/b?c d');
        same(['user' => 42, 'tags' => [], 'map' => [], 'f' => 1.0, 'text' => 'ä/€'], $got->payload, 'payload');
        same(['trace' => 'x'], $got->headers, 'headers');
        same(true, abs($at->getTimestamp() - $got->nextProcessAt?->getTimestamp()) <= 1, 'time');
        same($info->id, client()->enqueue($task)->id, 'idempotent');
        throws(Exception\TaskIdConflict::class, static fn () => client()->enqueue(new NewTask($type, 'other', id: 'a/b?c d', queue: $info->queue)));
    },

    'payload forms' => static function (): void {
        $type = fresh('forms');
        foreach ([null, 0, false, '', 'text', [1, 2], ['a' => null]] as $value) {
            $id = client()->enqueue(new NewTask($type, $value))->id;
            same($value, client()->get($type, $id)->payload, 'JSON');
        }
        $id = client()->enqueue(new NewTask($type, Payload::text('not JSON')))->id;
        same('not JSON', client()->get($type, $id)->payload->bytes, 'text');
        $id = client()->enqueue(new NewTask($type, Payload::bytes("\xff\x00\xfe")))->id;
        same("\xff\x00\xfe", client()->get($type, $id)->payload->bytes, 'bytes');
        throws(JsonException::class, static fn () => client()->enqueue(new NewTask($type, "\xff")));
    },

    'batch' => static function (): void {
        $type = fresh('batch');
        $tasks = static function () use ($type): iterable {
            for ($n = 0; $n < 1500; $n++) {
                yield $n === 1200 ? new NewTask($type, $n, maxRetry: -1) : new NewTask($type, $n, id: "$n");
            }
        };
        $results = client()->enqueueBatch($tasks());
        same(1500, count($results), 'results');
        same('1499', $results[1499]->id, 'the last one');
        same('/tasks/200/max_retry', $results[1200]->problems[0]['pointer'] ?? null, 'the invalid one: ' . $results[1200]->getMessage());
        same(1499, client()->stats($type)->pending, 'pending');
        same([], client()->enqueueBatch([]), 'no tasks');
    },

    'duplicates are rejected' => static function (): void {
        $type = fresh('unique');
        client()->enqueue(new NewTask($type, 1, uniqueFor: '1m'));
        throws(Exception\DuplicateTask::class, static fn () => client()->enqueue(new NewTask($type, 1, uniqueFor: '1m')));
    },

    'idempotency keys' => static function (): void {
        $type = fresh('once');
        $enqueue = static fn () => client()->enqueue(new NewTask($type, idempotencyKey: 'order-7', idempotencyTtl: '1h'));
        $first = $enqueue();
        same([$first->id, 'pending'], [$enqueue()->id, $enqueue()->state]);
        try {
            client()->delete($type, $first->id);
        } catch (Exception\NotFound) { // repeated after a lost response
        }
        same([$first->id, $type, 'gone'], [$enqueue()->id, $enqueue()->type, $enqueue()->state]);
    },

    'modes' => static function (): void {
        $type = fresh('modes');
        $replace = static fn (int $n) => client()->enqueue(new NewTask($type, $n, uniqueFor: '1h', uniqueKey: 'doc', onDuplicate: 'replace', expiresIn: 3600));
        $first = $replace(1);
        same($first->id, $replace(2)->id);
        same(2, client()->get($type, $first->id)->payload);
        $debounce = static fn () => client()->enqueue(new NewTask($type, debounce: ['key' => 'd', 'quiet' => 60, 'max_wait' => '5m']));
        same([$debounce()->id, 'scheduled'], [$debounce()->id, $debounce()->state]);
        $throttle = static fn () => client()->enqueue(new NewTask($type, throttle: ['key' => 't', 'window' => '1m']));
        same($throttle()->id, $throttle()->id);
        $task = client()->enqueue(new NewTask($type, partitionKey: 'customer 7'));
        same('customer 7', $task->partitionKey);
        same(0, client()->stats($type)->held);
        throws(Exception\InvalidRequest::class, static fn () => client()->enqueue(new NewTask($type, partitionKey: ' ')));
    },

    'changes' => static function (): void {
        $type = fresh('changes');
        $c = client();
        $c->enqueue(new NewTask($type, id: 'x', processIn: 3600));
        $c->reschedule($type, 'x', '2h');
        same(true, $c->get($type, 'x')->nextProcessAt > new DateTimeImmutable('+110 minutes'), 'rescheduled by');
        $c->reschedule($type, 'x', new DateTimeImmutable('+3 hours'));
        same(true, $c->get($type, 'x')->nextProcessAt > new DateTimeImmutable('+170 minutes'), 'rescheduled to');
        throws(Exception\WrongState::class, static fn () => $c->cancel($type, 'x'));
        $sure = static function (callable $do, callable $done): void {
            while (!$done()) {
                try {
                    $do();
                } catch (Exception\NotFound | Exception\WrongState) { // a retry after a lost response
                }
            }
        };
        $state = static fn (): string => $c->get($type, 'x')->state;
        $sure(static fn () => $c->run($type, 'x'), static fn () => $state() === 'pending');
        $sure(static fn () => $c->archive($type, 'x'), static fn () => $state() === 'archived');
        $sure(static fn () => $c->delete($type, 'x'), static fn () => $c->stats($type)->size === 0);
        throws(Exception\NotFound::class, static fn () => $c->get($type, 'x'));
        throws(Exception\NotFound::class, static fn () => $c->stats(fresh('nowhere')));
    },

    'changes of workflows' => static function (): void {
        $type = fresh('changes');
        $c = client();
        $chain = [new Node('a', new NewTask("$type/a")), new Node('b', new NewTask("$type/b"), after: ['a'])];
        same('running', $c->createWorkflow("$type/x", $chain, '1h')->status);
        same(2, $c->createWorkflow("$type/x", $chain)->total, 'repeated');
        same('running', $c->waitWorkflow("$type/x", 0.2)->status, 'a short wait');
        throws(Exception\Conflict::class, static fn () => $c->createWorkflow("$type/x", [$chain[0]]));
        throws(Exception\WrongState::class, static fn () => $c->skipNode("$type/x", 'a'));
        same('skipped', $c->skipNode("$type/x", 'b')->nodes['b']->status);
        same('running', $c->retryWorkflow("$type/x")->status);
        same('canceled', $c->cancelWorkflow("$type/x")->status);
        $found = [];
        foreach ($c->workflows() as $w) {
            $found[$w->id] = $w->status;
        }
        same('canceled', $found["$type/x"] ?? null, 'listed');
        throws(Exception\NotFound::class, static fn () => $c->workflow($type));
        throws(Exception\NotFound::class, static fn () => $c->nodeResult("$type/x", 'a'));
        $e = throws(Exception\InvalidRequest::class, static fn () => $c->createWorkflow($type, [new Node('a', [new NewTask($type, group: 'g')])]));
        same('/nodes/0/tasks/0/group', $e->problems[0]['pointer']);
    },

    'large batch' => static function (): void {
        $type = fresh('large');
        $c = client();
        $tasks = array_map(static fn (int $n): NewTask => new NewTask($type, $n, id: "$n"), range(1, 1200));
        for ($n = 0; $n < 2; $n++) {
            $batch = $c->createBatch($type, $tasks, onEnd: new NewTask("$type/end"));
            same([false, 1200, 'waiting'], [$batch->open, $batch->total, $batch->callbacks['on_end']->status]);
        }
        same(1200, $c->stats($type)->pending);
        same(true, $c->openBatch("$type/2", onSuccess: new NewTask($type))->open);
        $results = $c->addToBatch("$type/2", [new NewTask($type), new NewTask($type, maxRetry: -1)]);
        same(['pending', 'invalid-request'], [$results[0]->state, $results[1]->kind]);
        same(1, $c->closeBatch("$type/2")->total);
        same(false, $c->batch("$type/2")->open);
        throws(Exception\WrongState::class, static fn () => $c->addToBatch("$type/2", [new NewTask($type)]));
    },

    'pause and resume' => static function (): void {
        $type = fresh('pause');
        $c = client();
        $c->enqueue(new NewTask($type));
        $c->pause($type);
        same(true, $c->stats($type)->paused, 'paused');
        $c->resume($type);
        same(false, $c->stats($type)->paused, 'resumed');
        $names = array_map(static fn ($q) => $q->name, $c->queues());
        same(true, in_array($type, $names, true), 'listed');
    },

    'delete a queue' => static function (): void {
        $type = fresh('deleted');
        $c = client();
        $c->enqueue(new NewTask($type));
        throws(Exception\Conflict::class, static fn () => $c->deleteQueue($type));
        $c->deleteQueue($type, force: true);
        throws(Exception\NotFound::class, static fn () => $c->stats($type));
    },

    // The proxy drops one response of seven requests: in one of the rounds, that of a deletion.
    'a deletion whose response is lost' => static function (): void {
        $c = client();
        for ($n = 0; $n < 14; $n++) {
            $queue = $c->enqueue(new NewTask(fresh('lost'), id: 'x'))->queue;
            $n < 7 ? $c->delete($queue, 'x') : $c->deleteQueue($queue, force: true);
        }
        throws(Exception\NotFound::class, static function () use ($c): void {
            for ($n = 0; $n < 3; $n++) { // the proxy does not drop two of them
                $c->deleteQueue(fresh('nowhere'));
            }
        });
    },

    'rejected requests' => static function (): void {
        $type = fresh('rejected');
        same(403, throws(Exception\AccessDenied::class, static fn () => client('ASYNQ_READ_TOKEN')->enqueue(new NewTask($type)))->status);
        $stranger = new Asynq\Client(getenv('ASYNQ_URL'), 'an-unknown-token');
        same(401, throws(Exception\AccessDenied::class, static fn () => $stranger->queues())->status);
        $e = throws(Exception\InvalidRequest::class, static fn () => client()->enqueue(new NewTask($type, maxRetry: -1)));
        same('/max_retry', $e->problems[0]['pointer'] ?? null, 'pointer: ' . $e->getMessage());
        throws(Exception\ConnectionException::class, static fn () => (new Asynq\Client('http://127.0.0.1:1', 'x', retryFor: 0))->queues());
        throws(InvalidArgumentException::class, static fn () => new Asynq\Client('queue.example.com', 'x'));
    },

    'wait' => static function (): void {
        $type = fresh('wait');
        $c = client();
        $c->enqueue(new NewTask($type, 1, id: 'x', retention: '1h'));
        same('pending', $c->wait($type, 'x', 0.2)->state, 'before');
        work([$type => static fn (Asynq\Task $task): array => ['twice' => 2 * $task->payload()]], 1);
        $info = $c->wait($type, 'x');
        same(['completed', ['twice' => 2]], [$info->state, $info->result]);
        same(true, $info->completedAt !== null, 'time');
    },
];
