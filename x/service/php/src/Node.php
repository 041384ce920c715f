<?php

declare(strict_types=1);

namespace Asynq;

/**
 * A node of a workflow: one task, or any number of them.
 *
 *     new Node('ship', new NewTask('order:ship', $order), after: ['pack'])
 */
final readonly class Node
{
    /**
     * @param string $name unique in the workflow
     * @param NewTask|list<NewTask> $task
     * @param list<string> $after nodes whose tasks must have succeeded
     * @param list<string> $afterFailure nodes of each of which a task must have failed
     * @param list<string> $afterEnd nodes whose tasks must have ended
     * @param ?string $onDependencyFailure what the node does if a node in $after fails: block (the
     *     default: wait until the failed task is run again and succeeds), cancel or ignore
     */
    public function __construct(
        public string $name,
        public NewTask|array $task,
        public array $after = [],
        public array $afterFailure = [],
        public array $afterEnd = [],
        public ?string $onDependencyFailure = null,
    ) {
    }

    /**
     * @internal
     * @return array<string, mixed>
     */
    public function fields(): array
    {
        $fields = [
            'name' => $this->name,
            'after' => $this->after,
            'after_failure' => $this->afterFailure,
            'after_end' => $this->afterEnd,
            'on_dependency_failure' => $this->onDependencyFailure,
        ];
        $fields = array_filter($fields, static fn (mixed $f): bool => $f !== null && $f !== []);
        return $fields + (is_array($this->task) ? ['tasks' => NewTask::members($this->task)] : ['task' => $this->task->member()]);
    }
}
