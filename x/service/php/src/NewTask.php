<?php

declare(strict_types=1);

namespace Asynq;

/**
 * A task to enqueue. Durations are seconds or strings such as "1h30m".
 *
 *     new NewTask('email:welcome', ['user' => 42], id: 'welcome-42', maxRetry: 5)
 */
final readonly class NewTask
{
    /**
     * @param string $type task type, which selects the handler
     * @param mixed $payload a value for json_encode, or a Payload. Null means no payload. An empty
     *     array is [], (object) [] is {}.
     * @param ?string $id unique in its queue. While the queue has the task, enqueueing the same ID,
     *     type and payload again returns it. The default is a random ID, which makes retries of the
     *     request safe. The IDs of tasks of workflows are ignored.
     * @param ?string $queue the default is the queue that the service configures for the type, or
     *     else a queue named like the type
     * @param array<string, string> $headers metadata, such as a trace ID
     * @param ?int $maxRetry maximum number of retries
     * @param int|float|string|null $timeout maximum duration of an attempt
     * @param ?\DateTimeInterface $deadline time by which attempts must end
     * @param int|float|string|null $uniqueFor holds a uniqueness lock for this long: tasks with the
     *     same type and payload are rejected
     * @param ?\DateTimeInterface $processAt earliest start
     * @param int|float|string|null $processIn delay before the earliest start; exclusive with
     *     $processAt
     * @param int|float|string|null $retention how long the completed task and its result are kept
     * @param ?string $group group for aggregation by a Go server
     * @param ?string $idempotencyKey all calls with the same key and queue create one task, and
     *     return it also after it has ended, then with the state "gone"
     * @param int|float|string|null $idempotencyTtl how long the key is kept; the default is 24h
     * @param ?string $uniqueKey key of the uniqueness lock in place of type and payload; requires
     *     $uniqueFor
     * @param ?string $onDuplicate what happens if another task holds the lock: reject (the
     *     default), keep, replace or supersede
     * @param ?array{key: string, quiet: int|float|string, max_wait?: int|float|string} $debounce
     *     delays the task until no other call with the key was made for the quiet time
     * @param ?array{key: string, window: int|float|string} $throttle enqueues at most one task per
     *     key, queue and window
     * @param int|float|string|null $expiresIn no attempt starts later than this
     * @param ?string $partitionKey partition of the queue, such as a customer, which has its own
     *     share and limits
     */
    public function __construct(
        public string $type,
        public mixed $payload = null,
        public ?string $id = null,
        public ?string $queue = null,
        public array $headers = [],
        public ?int $maxRetry = null,
        public int|float|string|null $timeout = null,
        public ?\DateTimeInterface $deadline = null,
        public int|float|string|null $uniqueFor = null,
        public ?\DateTimeInterface $processAt = null,
        public int|float|string|null $processIn = null,
        public int|float|string|null $retention = null,
        public ?string $group = null,
        public ?string $idempotencyKey = null,
        public int|float|string|null $idempotencyTtl = null,
        public ?string $uniqueKey = null,
        public ?string $onDuplicate = null,
        public ?array $debounce = null,
        public ?array $throttle = null,
        public int|float|string|null $expiresIn = null,
        public ?string $partitionKey = null,
    ) {
    }

    /**
     * @internal
     * @return array<string, mixed>
     */
    public function fields(): array
    {
        $fields = [
            'type' => $this->type,
            'id' => $this->id ?? self::randomId(),
            'queue' => $this->queue,
            'headers' => $this->headers === [] ? null : $this->headers,
            'max_retry' => $this->maxRetry,
            'timeout' => Format::duration($this->timeout),
            'deadline' => Format::time($this->deadline),
            'unique_for' => Format::duration($this->uniqueFor),
            'process_at' => Format::time($this->processAt),
            'process_in' => Format::duration($this->processIn),
            'retention' => Format::duration($this->retention),
            'group' => $this->group,
            'idempotency_key' => $this->idempotencyKey,
            'idempotency_ttl' => Format::duration($this->idempotencyTtl),
            'unique_key' => $this->uniqueKey,
            'on_duplicate' => $this->onDuplicate,
            'debounce' => self::durations($this->debounce),
            'throttle' => self::durations($this->throttle),
            'expires_in' => Format::duration($this->expiresIn),
            'partition_key' => $this->partitionKey,
        ];
        return array_filter($fields, static fn (mixed $f): bool => $f !== null) + Payload::field('payload', $this->payload);
    }

    /**
     * The fields of a task of a workflow, whose ID the service sets.
     *
     * @internal
     * @return array<string, mixed>
     */
    public function member(): array
    {
        $fields = $this->fields();
        unset($fields['id']);
        return $fields;
    }

    /**
     * @internal
     * @param array<NewTask> $tasks
     * @return list<array<string, mixed>>
     */
    public static function members(array $tasks): array
    {
        return array_values(array_map(static fn (NewTask $t): array => $t->member(), $tasks));
    }

    /**
     * @param ?array<string, mixed> $fields
     * @return ?array<string, mixed> the fields, with durations formatted
     */
    private static function durations(?array $fields): ?array
    {
        foreach ($fields ?? [] as $name => $value) {
            $fields[$name] = $name === 'key' ? $value : Format::duration($value);
        }
        return $fields;
    }

    private static function randomId(): string
    {
        $b = random_bytes(16);
        $b[6] = chr(ord($b[6]) & 0x0f | 0x40);
        $b[8] = chr(ord($b[8]) & 0x3f | 0x80);
        return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split(bin2hex($b), 4));
    }
}
