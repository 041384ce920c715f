<?php

declare(strict_types=1);

namespace Asynq;

/**
 * A task to be enqueued. Durations are seconds, or texts such as "1h30m".
 *
 *     new NewTask('email:welcome', ['user' => 42], id: 'welcome-42', maxRetry: 5)
 */
final readonly class NewTask
{
    /**
     * @param string $type what kind of task it is: workers find its handler by it
     * @param mixed $payload what json_encode takes, or a Payload. Null is none. An empty array is [], and (object) [] is {}.
     * @param ?string $id unique in its queue. While the queue has the task, the same ID, type and payload give it back and make no
     *     second one. Without an ID the client makes a random one, so that it can repeat what was not answered.
     * @param ?string $queue the default is that of the service for this type: usually the queue named like the type
     * @param array<string, string> $headers small facts about the task, such as a trace ID
     * @param ?int $maxRetry failed attempts that it may have after its first
     * @param int|float|string|null $timeout how long an attempt may take
     * @param ?\DateTimeInterface $deadline when an attempt must end
     * @param int|float|string|null $uniqueFor refuse the task while another one with its type and payload holds the lock, which is so long
     * @param ?\DateTimeInterface $processAt not before this time
     * @param int|float|string|null $processIn not before this has passed
     * @param int|float|string|null $retention how long the task and its result are kept once it is done
     * @param ?string $group to be aggregated by a server in Go
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
        ];
        return array_filter($fields, static fn (mixed $f): bool => $f !== null) + Payload::field('payload', $this->payload);
    }

    private static function randomId(): string
    {
        $b = random_bytes(16);
        $b[6] = chr(ord($b[6]) & 0x0f | 0x40);
        $b[8] = chr(ord($b[8]) & 0x3f | 0x80);
        return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split(bin2hex($b), 4));
    }
}
