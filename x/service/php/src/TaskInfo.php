<?php

declare(strict_types=1);

namespace Asynq;

/** A task. Responses to an enqueue omit payload and result. */
final readonly class TaskInfo
{
    public string $id;
    public string $queue;
    public string $type;
    /** One of pending, active, scheduled, held, retry, archived, completed and aggregating. */
    public string $state;
    /** Decoded JSON with arrays for objects; a Payload if it is not JSON; null if there is none. */
    public mixed $payload;
    /** Result of the handler, in the same form. */
    public mixed $result;
    /** @var array<string, string> */
    public array $headers;
    public int $maxRetry;
    /** Number of retries so far, including a pending one. */
    public int $retried;
    public ?string $lastError;
    public ?string $group;
    public ?string $partitionKey;
    public ?\DateTimeImmutable $lastFailedAt;
    public ?\DateTimeImmutable $deadline;
    public ?\DateTimeImmutable $nextProcessAt;
    public ?\DateTimeImmutable $completedAt;
    /** What the handler reported last: fraction (0 to 1), note, at. */
    public ?array $progress;
    /** @var list<array<string, string>> Last failed attempts: started, ended, kind, server, error. */
    public array $attempts;

    /** @internal */
    public function __construct(object $from)
    {
        $this->id = $from->id;
        $this->queue = $from->queue;
        $this->type = $from->type;
        $this->state = $from->state;
        $this->payload = Payload::arrays(Payload::of($from, 'payload'));
        $this->result = Payload::arrays(Payload::of($from, 'result'));
        $this->headers = (array) ($from->headers ?? []);
        $this->maxRetry = $from->max_retry;
        $this->retried = $from->retried;
        $this->lastError = $from->last_error ?? null;
        $this->group = $from->group ?? null;
        $this->partitionKey = $from->partition_key ?? null;
        $this->lastFailedAt = Format::parse($from->last_failed_at ?? null);
        $this->deadline = Format::parse($from->deadline ?? null);
        $this->nextProcessAt = Format::parse($from->next_process_at ?? null);
        $this->completedAt = Format::parse($from->completed_at ?? null);
        $this->progress = isset($from->progress) ? (array) $from->progress : null;
        $this->attempts = array_map(static fn (object $a): array => (array) $a, $from->attempts ?? []);
    }

    /** Reports whether the task is completed or archived. */
    public function hasEnded(): bool
    {
        return $this->state === 'completed' || $this->state === 'archived';
    }
}
