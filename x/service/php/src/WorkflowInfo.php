<?php

declare(strict_types=1);

namespace Asynq;

/** The state of a workflow. */
final class WorkflowInfo
{
    use Counts;

    public readonly string $id;
    /** One of running, blocked, succeeded, failed and canceled. */
    public readonly string $status;
    public readonly \DateTimeImmutable $createdAt;
    /** @var array<string, NodeInfo> The nodes by name; empty in lists. */
    public readonly array $nodes;

    /** @internal */
    public function __construct(object $from)
    {
        $this->id = $from->id;
        $this->status = $from->status;
        $this->createdAt = Format::parse($from->created_at);
        $nodes = [];
        foreach ($from->nodes ?? [] as $node) {
            $nodes[$node->name] = new NodeInfo($node);
        }
        $this->nodes = $nodes;
        $this->count($from);
    }
}
