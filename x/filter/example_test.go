package filter_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

func Example() {
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: "localhost:6379"})
	defer inspector.Close()

	f, err := filter.Parse(`type:email:* error:"timed out" age>10m`)
	if err != nil {
		log.Fatal(err)
	}
	scan := filter.Scan{
		Filter:   f,
		MaxScan:  100_000,
		Progress: func(p filter.Progress) { log.Printf("%s: scanned %d tasks, found %d", p.Queue, p.Looked, p.Found) },
	}
	for task, err := range scan.Tasks(context.Background(), inspector) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(task.Queue, task.ID, task.LastErr)
	}

	// The same filter for a change of all such tasks.
	n, err := inspector.RunTasks(context.Background(), "mail", asynq.TaskStateRetry, f.TaskFilter())
	fmt.Println(n, err)
}

func ExampleRows() {
	f, err := filter.ParseRows(`queue:mail:* (pending>100 OR -paused:false)`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Match(map[string]any{"queue": "mail:slow", "pending": 250, "paused": false}))
	fmt.Println(f.Match(map[string]any{"queue": "mail:fast", "pending": 0, "paused": false}))
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleSyntaxError() {
	_, err := filter.Parse("type:email (id:a OR id:b")
	var wrong *filter.SyntaxError
	if errors.As(err, &wrong) {
		fmt.Println(wrong)
		fmt.Println(wrong.Pointer())
	}
	// Output:
	// filter: at character 12: unclosed "(": add a ")" after its terms
	// type:email (id:a OR id:b
	//            ^
}
