<?php

declare(strict_types=1);

namespace Asynq;

/**
 * Extends the leases of a worker, and knows which tasks it should stop.
 *
 * @internal
 */
interface Heartbeat
{
    /**
     * Says which leases there are from now on.
     *
     * @param list<Task> $tasks
     */
    public function watch(array $tasks): void;

    /** Sees to what is due. */
    public function beat(): void;

    /** Why to stop working under a lease; null to go on. */
    public function trouble(string $lease): ?string;

    public function stop(): void;
}
