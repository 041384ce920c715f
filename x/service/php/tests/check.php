<?php

declare(strict_types=1);

// Test helpers.

function same(mixed $want, mixed $got, string $what = ''): void
{
    if ($want !== $got) {
        throw new LogicException("$what: got " . var_export($got, true) . ', want ' . var_export($want, true));
    }
}

/**
 * @template T of Throwable
 * @param class-string<T> $class
 * @return T
 */
function throws(string $class, callable $do): Throwable
{
    try {
        $do();
    } catch (Throwable $e) {
        if ($e instanceof $class) {
            return $e;
        }
        throw $e;
    }
    throw new LogicException("nothing thrown, want $class");
}

function client(string $token = 'ASYNQ_TOKEN', float $retryFor = 10.0): Asynq\Client
{
    return new Asynq\Client(getenv('ASYNQ_URL'), getenv($token), retryFor: $retryFor);
}

/** Returns a unique name. */
function fresh(string $name): string
{
    return $name . '-' . bin2hex(random_bytes(4));
}

/**
 * Runs a worker until its handlers have run $times times. Its log is stored in $log.
 *
 * @param array<string, callable(Asynq\Task): mixed> $handlers
 * @param ?list<string> $log
 */
function work(array $handlers, int $times, ?array &$log = null, mixed ...$options): void
{
    $worker = null;
    $log = [];
    foreach ($handlers as $type => $handler) {
        $handlers[$type] = static function (Asynq\Task $task) use (&$worker, &$times, $handler): mixed {
            if (--$times <= 0) {
                $worker->stop();
            }
            return $handler($task);
        };
    }
    $write = static function (string $message, array $context) use (&$log): void {
        if (!str_starts_with($message, 'cannot take tasks')) { // caused by the proxy
            $log[] = $message . ' ' . json_encode($context);
        }
    };
    $worker = new Asynq\Worker(client(), $handlers, ...$options, log: $write);
    $worker->run();
}
