<?php

declare(strict_types=1);

namespace Asynq;

/** A leased task, as passed to handlers. */
final class Task
{
    public readonly string $lease;
    public readonly string $queue;
    public readonly string $id;
    public readonly string $type;
    /** @var array<string, string> */
    public readonly array $headers;
    public readonly ?string $partitionKey;
    /** ID of its workflow or batch, and its node there. */
    public readonly ?string $workflow;
    public readonly ?string $node;
    /** 1 for the first attempt. */
    public readonly int $attempt;
    public readonly int $maxRetry;
    /** Time by which the attempt must end. */
    public readonly ?\DateTimeImmutable $deadline;
    public readonly \DateTimeImmutable $leaseExpiresAt;
    private readonly mixed $value;

    private ?Heartbeat $heartbeat = null;
    private ?float $reported = null;

    /** @internal */
    public function __construct(object $from, private readonly ?Client $client = null)
    {
        $this->lease = $from->lease;
        $this->queue = $from->queue;
        $this->id = $from->id;
        $this->type = $from->type;
        $this->headers = (array) ($from->headers ?? []);
        $this->partitionKey = $from->partition_key ?? null;
        $this->workflow = $from->workflow ?? null;
        $this->node = $from->node ?? null;
        $this->attempt = $from->attempt;
        $this->maxRetry = $from->max_retry;
        $this->deadline = Format::parse($from->deadline ?? null);
        $this->leaseExpiresAt = Format::parse($from->lease_expires_at);
        $this->value = Payload::of($from, 'payload');
    }

    /**
     * Returns the payload: decoded JSON with arrays for objects (stdClass if $objects), null if
     * there is none, or a Payload if it is not JSON.
     */
    public function payload(bool $objects = false): mixed
    {
        return $objects ? $this->value : Payload::arrays($this->value);
    }

    /**
     * Returns the result of another node of the workflow: see Client::nodeResult. Scope: read.
     *
     * @throws Exception\AsynqException
     */
    public function resultOf(string $node): mixed
    {
        return $this->client?->nodeResult((string) $this->workflow, $node);
    }

    /**
     * Reports how far the handler is, from 0 to 1. It may be called often: at most one request a
     * second is made, and one for the fraction 1. Others, and requests that fail because the
     * service is unavailable, are dropped.
     *
     * @throws Exception\LeaseLost if the task is lost
     */
    public function progress(float $fraction, string $note = ''): void
    {
        $now = hrtime(true) / 1e9;
        if ($this->client === null || ($this->reported !== null && $now - $this->reported < 1 && $fraction < 1)) {
            return;
        }
        $this->reported = $now;
        try {
            $this->client->setProgress($this->lease, $fraction, $note);
        } catch (Exception\ConnectionException | Exception\Unavailable) {
            // Progress is best effort.
        }
    }

    /**
     * Reports whether the handler should stop: task canceled, lease lost, or deadline passed. It is
     * cheap.
     */
    public function isCanceled(): bool
    {
        return $this->why() !== null;
    }

    /**
     * Throws Canceled if the handler should stop. Call it regularly in long handlers.
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
    public function setHeartbeat(Heartbeat $heartbeat): void
    {
        $this->heartbeat = $heartbeat;
    }
}
