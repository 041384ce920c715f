<?php

declare(strict_types=1);

namespace Asynq;

/** The progress of a batch. The numbers are those of its tasks, without the callbacks. */
final class BatchInfo
{
    use Counts;

    public readonly string $id;
    /** One of running, blocked, succeeded, failed and canceled; of tasks and callbacks together. */
    public readonly string $status;
    /** Whether tasks can be added. */
    public readonly bool $open;
    /** Status of the tasks: running, succeeded, failed or canceled. */
    public readonly string $members;
    public readonly \DateTimeImmutable $createdAt;
    /** @var array<string, NodeInfo> By name: on_success, on_failure and on_end, if it has them. */
    public readonly array $callbacks;

    /** @internal */
    public function __construct(object $from)
    {
        $this->id = $from->id;
        $this->status = $from->status;
        $this->open = $from->open;
        $this->members = $from->members;
        $this->createdAt = Format::parse($from->created_at);
        $this->callbacks = array_map(static fn (object $n): NodeInfo => new NodeInfo($n), (array) $from->callbacks);
        $this->count($from);
    }
}
