<?php

declare(strict_types=1);

namespace Asynq;

/** The state of a node of a workflow. */
final class NodeInfo
{
    use Counts;

    public readonly string $name;
    /** One of waiting, running, succeeded, failed, canceled, omitted and skipped. */
    public readonly string $status;
    /** @var list<string> Queues of its tasks. */
    public readonly array $queues;
    /** ID of the task of a node of one task, in the only one of $queues. */
    public readonly ?string $taskId;
    public readonly ?\DateTimeImmutable $startedAt;

    /** @internal */
    public function __construct(object $from)
    {
        $this->name = $from->name;
        $this->status = $from->status;
        $this->queues = $from->queues ?? [];
        $this->taskId = $from->task_id ?? null;
        $this->startedAt = Format::parse($from->started_at ?? null);
        $this->count($from);
    }
}
