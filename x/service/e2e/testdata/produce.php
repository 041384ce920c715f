<?php

declare(strict_types=1);

// produce.php COUNT TYPE:EVERY... enqueues COUNT tasks with payloads {"n": 0} and up. A task gets the
// first TYPE whose EVERY divides its number.

require __DIR__ . '/../../php/autoload.php';

$client = new Asynq\Client(getenv('ASYNQ_URL'), getenv('ASYNQ_TOKEN'));
$tasks = static function () use ($argv): iterable {
    for ($n = 0; $n < (int) $argv[1]; $n++) {
        foreach (array_slice($argv, 2) as $rule) {
            [$type, $every] = explode(':', $rule);
            if ($n % (int) $every === 0) {
                yield new Asynq\NewTask($type, ['n' => $n], id: "task-$n", retention: '10m');
                break;
            }
        }
    }
};
foreach ($client->enqueueBatch($tasks()) as $result) {
    if ($result instanceof Throwable) {
        throw $result;
    }
}
