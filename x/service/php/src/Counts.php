<?php

declare(strict_types=1);

namespace Asynq;

/** The numbers of tasks, and the times, of a workflow, a batch or a node. */
trait Counts
{
    /** Tasks that were created; before the start of a node, those that will be. */
    public readonly int $total;
    /** Tasks that have not ended. */
    public readonly int $unfinished;
    public readonly int $succeeded;
    /** Archived tasks. */
    public readonly int $failed;
    /** Tasks that were deleted before they succeeded. */
    public readonly int $deleted;
    /** Null if it has not ended. */
    public readonly ?\DateTimeImmutable $endedAt;

    private function count(object $from): void
    {
        foreach (['total', 'unfinished', 'succeeded', 'failed', 'deleted'] as $name) {
            $this->{$name} = $from->{$name};
        }
        $this->endedAt = Format::parse($from->ended_at ?? null);
    }
}
