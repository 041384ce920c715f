<?php

declare(strict_types=1);

namespace Asynq;

use Asynq\Exception\AsynqException;
use Asynq\Exception\Unavailable;

/**
 * Extends leases when due, in the worker process or in a separate one.
 *
 * @internal
 */
final class HeartbeatLoop implements Heartbeat
{
    /** @var list<string> */
    private array $leases = [];
    /** @var array<string, string> reason to stop, by lease */
    private array $troubles = [];
    private float $interval = 10.0;
    private float $next = INF;

    public function __construct(private readonly Client $client)
    {
    }

    /**
     * Returns a third of the remaining lease time, between 0.5 and 10 seconds because clocks may
     * differ.
     *
     * @param list<Task> $tasks
     */
    public static function interval(array $tasks): float
    {
        $left = array_map(static fn (Task $t): float => (float) $t->leaseExpiresAt->format('U.u'), $tasks);
        return $left === [] ? 10.0 : max(0.5, min(10.0, (min($left) - microtime(true)) / 3));
    }

    public function watch(array $tasks): void
    {
        $this->hold(array_map(static fn (Task $t): string => $t->lease, $tasks), self::interval($tasks));
    }

    /** @param list<string> $leases */
    public function hold(array $leases, float $interval): void
    {
        $this->leases = $leases;
        $this->interval = $interval;
        $this->troubles = array_intersect_key($this->troubles, array_flip($leases));
        $this->next = $leases === [] ? INF : microtime(true) + $interval;
    }

    /** Returns the seconds until the next heartbeat. */
    public function due(): float
    {
        return $this->next - microtime(true);
    }

    public function beat(): void
    {
        if ($this->due() > 0) {
            return;
        }
        $this->next = microtime(true) + $this->interval;
        $held = array_values(array_filter($this->leases, fn (string $l): bool => !isset($this->troubles[$l])));
        if ($held === []) {
            return;
        }
        try {
            foreach ($this->client->extend($held) as $lease => $result) {
                if ($result instanceof \Throwable && !$result instanceof Unavailable) {
                    $this->troubles[$lease] = $result->getMessage();
                }
            }
        } catch (AsynqException) {
            $this->next = microtime(true) + min($this->interval, 1.0);
        }
    }

    public function trouble(string $lease): ?string
    {
        return $this->troubles[$lease] ?? null;
    }

    /** @return array<string, string> */
    public function troubles(): array
    {
        return $this->troubles;
    }

    public function stop(): void
    {
        $this->hold([], $this->interval);
    }
}
