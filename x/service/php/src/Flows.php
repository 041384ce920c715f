<?php

declare(strict_types=1);

namespace Asynq;

use Asynq\Exception\AsynqException;
use Asynq\Exception\ProblemException;

/**
 * The methods of Client for workflows and batches.
 *
 * @internal
 */
trait Flows
{
    /**
     * Creates a workflow. If there is one with the ID, it is returned unchanged; Conflict is thrown
     * if its nodes are others. Scope: enqueue.
     *
     * @param list<Node> $nodes each after those that it depends on
     * @param int|float|string|null $retention how long it is kept after its end; the default is 7
     *     days
     */
    public function createWorkflow(string $id, array $nodes, int|float|string|null $retention = null): WorkflowInfo
    {
        $fields = ['nodes' => array_map(static fn (Node $n): array => $n->fields(), $nodes)];
        return new WorkflowInfo($this->http->repeat('POST', '/v1/workflows', self::flow($id, $retention, $fields))->workflow);
    }

    /** Returns a workflow with its nodes. Scope: read. */
    public function workflow(string $id): WorkflowInfo
    {
        return new WorkflowInfo($this->http->repeat('GET', self::workflowPath($id))->workflow);
    }

    /**
     * Waits until a workflow is not running, at most $seconds, and returns it. Its status is then
     * succeeded, failed, canceled, or blocked: a failed task must be run again. Scope: read.
     */
    public function waitWorkflow(string $id, float $seconds = 30.0): WorkflowInfo
    {
        return new WorkflowInfo($this->waitFlow(self::workflowPath($id), 'workflow', $seconds));
    }

    /**
     * Yields all workflows and batches, without their nodes, newest first. Scope: read.
     *
     * @return iterable<WorkflowInfo>
     */
    public function workflows(): iterable
    {
        for ($offset = 0; $offset !== null; $offset = $page->next_offset ?? null) {
            $page = $this->http->repeat('GET', "/v1/workflows?offset=$offset&limit=200");
            foreach ($page->workflows as $w) {
                yield new WorkflowInfo($w);
            }
        }
    }

    /** Cancels a workflow or batch: no further node starts. Scope: manage. */
    public function cancelWorkflow(string $id): WorkflowInfo
    {
        return new WorkflowInfo($this->http->repeat('POST', self::workflowPath($id) . '/cancel', [])->workflow);
    }

    /** Runs the archived tasks of a workflow or batch again. Scope: manage. */
    public function retryWorkflow(string $id): WorkflowInfo
    {
        return new WorkflowInfo($this->http->repeat('POST', self::workflowPath($id) . '/retry', [])->workflow);
    }

    /** Makes a node that waits or has failed count as succeeded. Scope: manage. */
    public function skipNode(string $id, string $node): WorkflowInfo
    {
        return new WorkflowInfo($this->http->repeat('POST', self::nodePath($id, $node) . '/skip', [])->workflow);
    }

    /**
     * Returns the result of the task of a node, as TaskInfo::$result. Throws NotFound if there is
     * none. Scope: read.
     */
    public function nodeResult(string $id, string $node): mixed
    {
        return Payload::arrays(Payload::of($this->http->repeat('GET', self::nodePath($id, $node) . '/result'), 'result'));
    }

    /**
     * Creates a batch of tasks that run at once, and tasks for its end. If there is one with the
     * ID, it is returned unchanged. Scope: enqueue.
     *
     * More than 1,000 tasks are added to an open batch, which is then closed. If the call fails
     * meanwhile, repeat it with the same tasks: those with an ID and a retention are not added
     * twice.
     *
     * @param list<NewTask> $tasks
     * @param ?NewTask $onSuccess runs when all tasks have succeeded
     * @param ?NewTask $onFailure runs when the first task has failed
     * @param ?NewTask $onEnd runs when all tasks have ended
     * @throws AsynqException
     */
    public function createBatch(
        string $id,
        array $tasks,
        ?NewTask $onSuccess = null,
        ?NewTask $onFailure = null,
        ?NewTask $onEnd = null,
        int|float|string|null $retention = null,
    ): BatchInfo {
        if (count($tasks) <= self::BATCH) {
            return $this->postBatch($id, $retention, $onSuccess, $onFailure, $onEnd, ['tasks' => NewTask::members($tasks)]);
        }
        $batch = $this->openBatch($id, $onSuccess, $onFailure, $onEnd, $retention);
        if (!$batch->open) {
            return $batch;
        }
        foreach ($this->addToBatch($id, $tasks) as $result) {
            if ($result instanceof ProblemException) {
                throw $result;
            }
        }
        return $this->closeBatch($id);
    }

    /** Creates an open batch, for addToBatch() and closeBatch(). Scope: enqueue. */
    public function openBatch(
        string $id,
        ?NewTask $onSuccess = null,
        ?NewTask $onFailure = null,
        ?NewTask $onEnd = null,
        int|float|string|null $retention = null,
    ): BatchInfo {
        return $this->postBatch($id, $retention, $onSuccess, $onFailure, $onEnd, ['open' => true]);
    }

    /**
     * Adds tasks to an open batch, as enqueueBatch() does. Scope: enqueue.
     *
     * @param iterable<NewTask> $tasks
     * @return list<TaskInfo|ProblemException>
     */
    public function addToBatch(string $id, iterable $tasks): array
    {
        return $this->sendTasks(self::batchPath($id) . '/tasks', $tasks);
    }

    /** Closes an open batch: onSuccess and onEnd run once its tasks have ended. Scope: enqueue. */
    public function closeBatch(string $id): BatchInfo
    {
        return new BatchInfo($this->http->repeat('POST', self::batchPath($id) . '/close', [])->batch);
    }

    /** Returns the progress of a batch. Scope: read. */
    public function batch(string $id): BatchInfo
    {
        return new BatchInfo($this->http->repeat('GET', self::batchPath($id))->batch);
    }

    /** Waits as waitWorkflow() does, and returns the batch. Scope: read. */
    public function waitBatch(string $id, float $seconds = 30.0): BatchInfo
    {
        return new BatchInfo($this->waitFlow(self::batchPath($id), 'batch', $seconds));
    }

    /** @param array<string, mixed> $fields */
    private function postBatch(
        string $id,
        int|float|string|null $retention,
        ?NewTask $onSuccess,
        ?NewTask $onFailure,
        ?NewTask $onEnd,
        array $fields,
    ): BatchInfo {
        foreach (['on_success' => $onSuccess, 'on_failure' => $onFailure, 'on_end' => $onEnd] as $name => $task) {
            if ($task !== null) {
                $fields[$name] = $task->member();
            }
        }
        return new BatchInfo($this->http->repeat('POST', '/v1/batches', self::flow($id, $retention, $fields))->batch);
    }

    private function waitFlow(string $path, string $name, float $seconds): object
    {
        $end = microtime(true) + $seconds;
        do {
            $step = min(max($end - microtime(true), 0.0), 30.0);
            $info = $this->http->repeat('GET', $path . '?wait=' . rawurlencode((string) Format::duration($step)), null, $step)->{$name};
        } while ($info->status === 'running' && microtime(true) < $end);
        return $info;
    }

    /**
     * @param array<string, mixed> $fields
     * @return array<string, mixed>
     */
    private static function flow(string $id, int|float|string|null $retention, array $fields): array
    {
        return ['id' => $id] + $fields + ($retention === null ? [] : ['retention' => Format::duration($retention)]);
    }

    private static function workflowPath(string $id): string
    {
        return '/v1/workflows/' . rawurlencode($id);
    }

    private static function nodePath(string $id, string $node): string
    {
        return self::workflowPath($id) . '/nodes/' . rawurlencode($node);
    }

    private static function batchPath(string $id): string
    {
        return '/v1/batches/' . rawurlencode($id);
    }
}
