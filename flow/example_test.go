package flow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/step"
)

// An order is charged, its items are packed, and it is shipped. If an item cannot be packed, the
// customer gets a refund.
func Example() {
	mini, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer mini.Close()
	redis := asynq.RedisClientOpt{Addr: mini.Addr()}
	client := asynq.NewClient(redis)
	defer client.Close()
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()

	mux := asynq.NewServeMux()
	mux.HandleFunc("order:charge", charge)
	mux.HandleFunc("order:pack", pack)
	mux.HandleFunc("order:ship", ship)
	mux.HandleFunc("order:refund", refund)
	srv := asynq.NewServer(redis, asynq.Config{LogLevel: asynq.FatalLevel})
	if err := srv.Start(mux); err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()

	ctx := context.Background()
	if err := startOrder(ctx, client, "order-42", []string{"book", "lamp"}); err != nil {
		log.Fatal(err)
	}
	if err := startOrder(ctx, client, "order-43", []string{"book", "unicorn"}); err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"order-42", "order-43"} {
		info, err := flow.Inspect(inspector).Get(ctx, id)
		for err == nil && (info.Status == flow.Running || info.Status == flow.Waiting) {
			time.Sleep(time.Millisecond)
			info, err = flow.Inspect(inspector).Get(ctx, id)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id, "is", info.Status)
		for _, node := range info.Nodes {
			fmt.Println(" ", node.Name, node.Status)
		}
	}
	// Output:
	// order-42 is succeeded
	//   charge succeeded
	//   pack succeeded
	//   ship succeeded
	//   refund omitted
	// order-43 is blocked
	//   charge succeeded
	//   pack failed
	//   ship waiting
	//   refund succeeded
}

func startOrder(ctx context.Context, client *asynq.Client, order string, items []string) error {
	f := flow.New(order)
	charge := f.Add("charge", asynq.NewTask("order:charge", []byte(order)))
	var packing []*asynq.Task
	for _, item := range items {
		packing = append(packing, asynq.NewTask("order:pack", []byte(item)))
	}
	pack := f.AddBatch("pack", packing).After(charge)
	f.Add("ship", asynq.NewTask("order:ship", []byte(order))).After(pack)
	f.Add("refund", asynq.NewTask("order:refund", []byte(order))).AfterFailure(pack)

	_, err := flow.Start(ctx, client, f)
	if errors.Is(err, flow.ErrExists) {
		return nil // an earlier call has started it
	}
	return err
}

func charge(_ context.Context, task *asynq.Task) error {
	_, err := task.ResultWriter().Write([]byte("receipt of " + string(task.Payload())))
	return err
}

func pack(_ context.Context, task *asynq.Task) error {
	if string(task.Payload()) == "unicorn" {
		return fmt.Errorf("out of stock: %w", asynq.SkipRetry)
	}
	return nil
}

func ship(ctx context.Context, _ *asynq.Task) error {
	member, ok := flow.FromContext(ctx)
	if !ok {
		return errors.New("not a task of a flow")
	}
	receipt, err := member.Result(ctx, "charge")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(receipt), "receipt") {
		return fmt.Errorf("unexpected receipt %q", receipt)
	}
	return nil
}

func refund(context.Context, *asynq.Task) error { return nil }

// 10,000 rows are imported, and a report is written at the end. The rows are added by the handler
// of the first task of the batch.
func Example_fanOut() {
	mini, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer mini.Close()
	redis := asynq.RedisClientOpt{Addr: mini.Addr()}
	client := asynq.NewClient(redis)
	defer client.Close()

	done := make(chan string)
	mux := asynq.NewServeMux()
	mux.HandleFunc("import:split", split10k)
	mux.HandleFunc("import:row", func(context.Context, *asynq.Task) error { return nil })
	mux.HandleFunc("import:report", func(context.Context, *asynq.Task) error {
		done <- "all rows are imported"
		return nil
	})
	srv := asynq.NewServer(redis, asynq.Config{Concurrency: 100, LogLevel: asynq.FatalLevel})
	if err := srv.Start(mux); err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()

	if err := startImport(context.Background(), client, "import-7"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-done)
	// Output: all rows are imported
}

func startImport(ctx context.Context, client *asynq.Client, id string) error {
	f := flow.New(id)
	rows := f.AddBatch("rows", []*asynq.Task{asynq.NewTask("import:split", []byte(id))})
	f.Add("report", asynq.NewTask("import:report", []byte(id))).AfterEnd(rows)
	_, err := flow.Start(ctx, client, f)
	return err
}

func split10k(ctx context.Context, _ *asynq.Task) error {
	member, ok := flow.FromContext(ctx)
	if !ok {
		return errors.New("not a task of a flow")
	}
	var rows []*asynq.Task
	for i := range 10_000 {
		rows = append(rows, asynq.NewTask("import:row", fmt.Append(nil, i), asynq.TaskID(fmt.Sprintf("%s-%d", member.FlowID(), i))))
	}
	results, err := member.Enqueue(ctx, rows, asynq.Retention(time.Hour))
	for _, r := range results {
		if r.Err != nil && !errors.Is(r.Err, asynq.ErrTaskIDConflict) { // an earlier attempt has added it
			err = errors.Join(err, r.Err)
		}
	}
	return err
}

// A contract is drawn up, a user approves it, and it is sent. While it waits for the approval, it
// needs no worker.
func Example_approval() {
	mini, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer mini.Close()
	redis := asynq.RedisClientOpt{Addr: mini.Addr()}
	client := asynq.NewClient(redis)
	defer client.Close()
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()

	sent := make(chan string)
	mux := asynq.NewServeMux()
	mux.HandleFunc("contract:draw-up", func(context.Context, *asynq.Task) error { return nil })
	mux.HandleFunc("contract:approve", awaitApproval)
	mux.HandleFunc("contract:send", func(ctx context.Context, task *asynq.Task) error {
		member, _ := flow.FromContext(ctx)
		by, err := member.Result(ctx, "approve")
		sent <- fmt.Sprintf("contract %s, approved by %s", task.Payload(), by)
		return err
	})
	srv := asynq.NewServer(redis, asynq.Config{LogLevel: asynq.FatalLevel})
	if err := srv.Start(mux); err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()

	ctx := context.Background()
	if err := startContract(ctx, client, "7"); err != nil {
		log.Fatal(err)
	}
	for err = asynq.ErrTaskNotFound; errors.Is(err, asynq.ErrTaskNotFound); { // until it is drawn up
		err = approve(ctx, client, inspector, "7", "Ann")
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-sent)
	// Output: contract 7, approved by Ann
}

func startContract(ctx context.Context, client *asynq.Client, contract string) error {
	f := flow.New("contract-" + contract)
	drawn := f.Add("draw-up", asynq.NewTask("contract:draw-up", []byte(contract)))
	approved := f.Add("approve", asynq.NewTask("contract:approve", []byte(contract))).After(drawn)
	f.Add("send", asynq.NewTask("contract:send", []byte(contract))).After(approved)
	_, err := flow.Start(ctx, client, f)
	return err
}

func awaitApproval(ctx context.Context, task *asynq.Task) error {
	by, err := step.WaitSignal[string](ctx, "approved", 30*24*time.Hour)
	if errors.Is(err, step.ErrSignalTimeout) {
		return fmt.Errorf("not approved in time: %w", asynq.SkipRetry) // the node fails
	}
	if err != nil {
		return err
	}
	_, err = task.ResultWriter().Write([]byte(by))
	return err
}

func approve(ctx context.Context, client *asynq.Client, inspector *asynq.Inspector, contract, user string) error {
	info, err := flow.Inspect(inspector).Get(ctx, "contract-"+contract)
	if err != nil {
		return err
	}
	return client.Signal(ctx, "default", info.Node("approve").TaskIDs[0], "approved", user)
}

// A batch is open while a program adds mails, which are sent at once. Its callbacks run after it is
// closed.
func ExampleOpenBatch() {
	mini, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer mini.Close()
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: mini.Addr()})
	defer client.Close()
	if err := sendMails(context.Background(), client, "mail-10", [][]string{{"a", "b"}, {"c"}}); err != nil {
		log.Fatal(err)
	}
	// Output:
}

func sendMails(ctx context.Context, client *asynq.Client, id string, pages [][]string) error {
	batch, err := flow.OpenBatch(ctx, client, flow.NewBatch(id).
		OnSuccess(asynq.NewTask("mail:all-sent", nil)).
		OnFailure(asynq.NewTask("mail:first-failure", nil)).
		OnEnd(asynq.NewTask("mail:report", nil)))
	if err != nil {
		return err
	}
	for _, page := range pages {
		var mails []*asynq.Task
		for _, address := range page {
			mails = append(mails, asynq.NewTask("mail:send", []byte(address)))
		}
		if _, err := batch.Enqueue(ctx, mails); err != nil {
			return err
		}
	}
	return batch.Close(ctx)
}
