<?php

declare(strict_types=1);

namespace Asynq;

/** A task that was taken: what a handler gets. */
final class Task
{
    public readonly string $lease;
    public readonly string $queue;
    public readonly string $id;
    public readonly string $type;
    /** @var array<string, string> */
    public readonly array $headers;
    /** 1 for the first attempt. */
    public readonly int $attempt;
    public readonly int $maxRetry;
    /** When the attempt must end. */
    public readonly ?\DateTimeImmutable $deadline;
    public readonly \DateTimeImmutable $leaseExpiresAt;
    private readonly mixed $value;

    private ?Heartbeat $heartbeat = null;

    /** @internal */
    public function __construct(object $from)
    {
        $this->lease = $from->lease;
        $this->queue = $from->queue;
        $this->id = $from->id;
        $this->type = $from->type;
        $this->headers = (array) ($from->headers ?? []);
        $this->attempt = $from->attempt;
        $this->maxRetry = $from->max_retry;
        $this->deadline = Format::parse($from->deadline ?? null);
        $this->leaseExpiresAt = Format::parse($from->lease_expires_at);
        $this->value = Payload::of($from, 'payload');
    }

    /**
     * What the task is about: what JSON decodes to, with arrays for objects (stdClass if $objects); null if there is none; or a Payload, if
     * it is no JSON.
     */
    public function payload(bool $objects = false): mixed
    {
        return $objects ? $this->value : Payload::arrays($this->value);
    }

    /** Whether the handler should stop: the task was canceled, its lease lost, or its time is over. It is cheap to ask. */
    public function isCanceled(): bool
    {
        return $this->why() !== null;
    }

    /**
     * Throws Canceled if the handler should stop. Long handlers call it at places where they can.
     */
    public function check(): void
    {
        $why = $this->why();
        if ($why !== null) {
            throw new Canceled($why);
        }
    }

    private function why(): ?string
    {
        $this->heartbeat?->beat();
        return $this->heartbeat?->trouble($this->lease)
            ?? ($this->deadline !== null && $this->deadline <= new \DateTimeImmutable() ? 'the deadline of the attempt has passed' : null);
    }

    /** @internal */
    public function heldBy(Heartbeat $heartbeat): void
    {
        $this->heartbeat = $heartbeat;
    }
}
