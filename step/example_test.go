package step_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/step"
)

// Charge is the receipt of a payment.
type Charge struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

// Approval is the value of the signal "approved".
type Approval struct {
	By string `json:"by"`
}

// Orders handles tasks of the type "order".
type Orders struct {
	Pay  func(ctx context.Context, key string) (Charge, error)
	Ship func(ctx context.Context, c Charge, a Approval) error
	Stop func(ctx context.Context, c Charge) error
}

func (o *Orders) ProcessTask(ctx context.Context, _ *asynq.Task) error {
	id, _ := asynq.GetTaskID(ctx)
	charge, err := step.Run(ctx, "charge", func(ctx context.Context) (Charge, error) {
		return o.Pay(ctx, id+"/charge") // the key makes a second payment harmless
	})
	if err != nil {
		return err
	}
	if err := step.Sleep(ctx, "cool-off", 24*time.Hour); err != nil {
		return err
	}
	approval, err := step.WaitSignal[Approval](ctx, "approved", 72*time.Hour)
	if errors.Is(err, step.ErrSignalTimeout) {
		return o.Stop(ctx, charge)
	}
	if err != nil {
		return err
	}
	return o.Ship(ctx, charge, approval)
}

// Approve is what the web page of an order calls.
func Approve(ctx context.Context, client *asynq.Client, id, user string) error {
	err := client.Signal(ctx, "default", id, "approved", Approval{By: user})
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return fmt.Errorf("order %s is closed", id)
	}
	return err
}

// Pages is a handler that imports pages until there are no more.
func Pages(load func(ctx context.Context, page int) (rows int, err error)) asynq.HandlerFunc {
	return func(ctx context.Context, _ *asynq.Task) error {
		for page := 1; ; page++ {
			rows, err := step.Run(ctx, fmt.Sprint("page-", page), func(ctx context.Context) (int, error) {
				return load(ctx, page)
			})
			if err != nil || rows == 0 {
				return err
			}
		}
	}
}
