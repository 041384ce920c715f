<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The service responded with a problem (application/problem+json). */
class ProblemException extends AsynqException
{
    /**
     * @param string $kind kind of problem, such as "task-not-found"; docs/SERVICE_API.md lists them
     * @param int $status the HTTP status
     * @param list<array{pointer: string, detail: string}> $problems invalid fields of the request
     * @param ?float $retryAfter seconds to wait before a retry, if reported
     */
    final public function __construct(
        public readonly string $kind,
        public readonly int $status,
        string $detail,
        public readonly array $problems = [],
        public readonly ?float $retryAfter = null,
    ) {
        parent::__construct($detail, $status);
    }

    private const CLASSES = [
        'invalid-request' => InvalidRequest::class,
        'unauthorized' => AccessDenied::class,
        'forbidden' => AccessDenied::class,
        'not-found' => NotFound::class,
        'queue-not-found' => NotFound::class,
        'task-not-found' => NotFound::class,
        'task-gone' => TaskGone::class,
        'task-id-conflict' => TaskIdConflict::class,
        'duplicate-task' => DuplicateTask::class,
        'wrong-state' => WrongState::class,
        'lease-lost' => LeaseLost::class,
        'too-large' => TooLarge::class,
        'too-many-requests' => Unavailable::class,
        'redis' => Unavailable::class,
        'redis-full' => Unavailable::class,
        'unavailable' => Unavailable::class,
    ];

    /** Creates the exception of a problem. Without one, as from a proxy, the status decides. */
    public static function of(mixed $problem, int $status, ?float $retryAfter = null): self
    {
        $problem = is_object($problem) ? $problem : new \stdClass();
        $kind = isset($problem->type) && is_string($problem->type) ? substr($problem->type, (int) strrpos(':' . $problem->type, ':')) : '';
        $class = self::CLASSES[$kind] ?? match (true) {
            $status === 401, $status === 403 => AccessDenied::class,
            $status === 404 => NotFound::class,
            $status === 409 => Conflict::class,
            $status === 413 => TooLarge::class,
            $status === 429, $status >= 500 => Unavailable::class,
            default => self::class,
        };
        $detail = $problem->detail ?? $problem->title ?? "the response has status $status";
        $errors = array_map(static fn (object $e): array => (array) $e, $problem->errors ?? []);
        return new $class($kind, $status, (string) $detail, $errors, $retryAfter);
    }
}
