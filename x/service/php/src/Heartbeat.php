<?php

declare(strict_types=1);

namespace Asynq;

/**
 * Extends the leases of a worker and reports which tasks to stop.
 *
 * @internal
 */
interface Heartbeat
{
    /**
     * Replaces the set of leases to extend.
     *
     * @param list<Task> $tasks
     */
    public function watch(array $tasks): void;

    /** Extends leases if due. */
    public function beat(): void;

    /** Returns the reason to stop working on a task; null to continue. */
    public function trouble(string $lease): ?string;

    public function stop(): void;
}
