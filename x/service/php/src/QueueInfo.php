<?php

declare(strict_types=1);

namespace Asynq;

/** Statistics of a queue. */
final readonly class QueueInfo
{
    public string $name;
    public bool $paused;
    /** Tasks in all states but completed. */
    public int $size;
    public int $pending;
    public int $active;
    public int $scheduled;
    /** Tasks that their partitions hold back. */
    public int $held;
    public int $retry;
    public int $archived;
    public int $completed;
    public int $aggregating;
    /** Attempts that finished on the current UTC day, and how many of them failed. */
    public int $processedToday;
    public int $failedToday;
    public int $processedTotal;
    public int $failedTotal;
    /** Maximum number of active tasks; null means no limit. */
    public ?int $maxRun;

    /** @internal */
    public function __construct(object $from)
    {
        $this->name = $from->name;
        $this->paused = $from->paused;
        $this->size = $from->size;
        foreach (['pending', 'active', 'scheduled', 'held', 'retry', 'archived', 'completed', 'aggregating'] as $state) {
            $this->{$state} = $from->{$state} ?? 0;
        }
        $this->processedToday = $from->processed_today ?? 0;
        $this->failedToday = $from->failed_today ?? 0;
        $this->processedTotal = $from->processed_total ?? 0;
        $this->failedTotal = $from->failed_total ?? 0;
        $this->maxRun = $from->max_run ?? null;
    }
}
