<?php

declare(strict_types=1);

use Asynq\NewTask;
use Asynq\Node;

// flows.php N creates N workflows, and waits until all have succeeded. Workflow w consists of the
// task split with the number 10w, five tasks part with the numbers from 10w, and the task join with
// the number 10w.

require __DIR__ . '/../../php/autoload.php';

$client = new Asynq\Client(getenv('ASYNQ_URL'), getenv('ASYNQ_TOKEN'));
for ($w = 0; $w < (int) $argv[1]; $w++) {
    $client->createWorkflow("w$w", [
        new Node('split', new NewTask('split', ['n' => 10 * $w])),
        new Node('parts', array_map(static fn (int $i) => new NewTask('part', ['n' => 10 * $w + $i]), range(0, 4)), after: ['split']),
        new Node('join', new NewTask('join', ['n' => 10 * $w]), after: ['parts']),
    ]);
}
for ($w = 0; $w < (int) $argv[1]; $w++) {
    $status = $client->waitWorkflow("w$w", 60)->status;
    if ($status !== 'succeeded') {
        throw new LogicException("workflow $w is $status");
    }
}
