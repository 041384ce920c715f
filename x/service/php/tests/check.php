<?php

declare(strict_types=1);

// What tests check with.

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
    throw new LogicException("nothing was thrown: want $class");
}

function client(string $token = 'ASYNQ_TOKEN', float $retryFor = 10.0): Asynq\Client
{
    return new Asynq\Client(getenv('ASYNQ_URL'), getenv($token), retryFor: $retryFor);
}

/** A name that no other test has. */
function fresh(string $name): string
{
    return $name . '-' . bin2hex(random_bytes(4));
}

/**
 * A worker that stops once its handlers have run so many times. Its log is kept in $log.
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
    $tell = static function (string $message, array $context) use (&$log): void {
        if (!str_starts_with($message, 'no tasks can be taken for now')) { // the proxy's doing
            $log[] = $message . ' ' . json_encode($context);
        }
    };
    $worker = new Asynq\Worker(client(), $handlers, ...$options, log: $tell);
    $worker->run();
}
