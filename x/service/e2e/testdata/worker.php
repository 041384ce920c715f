<?php

declare(strict_types=1);

// worker.php LOG PREFETCH MILLISECONDS TYPE... works for MILLISECONDS on each task, and logs a line at
// the start and the end of each task.

require __DIR__ . '/../../php/autoload.php';

[, $path, $prefetch, $each] = $argv;
$log = fopen($path, 'a');
$handler = static function (Asynq\Task $task) use ($log, $each): mixed {
    $payload = $task->payload();
    $line = "{$task->type} {$payload['n']} {$task->attempt} " . getmypid();
    fwrite($log, "begin $line\n");
    if (($payload['fail'] ?? 0) >= $task->attempt) {
        throw new Asynq\RetryLater(0, 'not yet');
    }
    usleep(1000 * (int) $each);
    if (isset($payload['busy']) && $task->attempt === 1) {
        usleep((int) (1e6 * $payload['busy'])); // one call: no other PHP code runs meanwhile
    }
    fwrite($log, "end $line\n");
    return ['n' => $payload['n'], 'attempt' => $task->attempt];
};
$client = new Asynq\Client(getenv('ASYNQ_URL'), getenv('ASYNQ_TOKEN'));
(new Asynq\Worker($client, array_fill_keys(array_slice($argv, 4), $handler), prefetch: (int) $prefetch))->run();
fwrite($log, "stopped - - 0 " . getmypid() . "\n");
