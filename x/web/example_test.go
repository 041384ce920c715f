package web_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web"
)

// The web UI is a handler in your own mux. It receives full paths, including its RootPath.
func ExampleNew() {
	ui := web.New(web.Options{
		RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:6379"},
		RootPath:     "/queues",
	})
	defer ui.Close()

	mux := http.NewServeMux()
	mux.Handle(ui.RootPath()+"/", ui)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "the shop") })
	fmt.Fprintln(os.Stderr, "http://localhost:8080"+ui.SignInPath()) // valid for one browser

	server := &http.Server{Addr: "localhost:8080", Handler: mux}
	server.RegisterOnShutdown(func() { ui.Close() }) // ends the event streams, which Shutdown would wait for
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Users log in with a name and a password.
func ExampleOptions_users() {
	options := web.Options{
		RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:6379"},
		Users: []web.User{
			{Name: "ada", Role: web.Admin, Password: os.Getenv("ADA_BCRYPT")}, // as htpasswd -nB writes it
			{Name: "grafana", Role: web.Viewer, Password: os.Getenv("GRAFANA_PASSWORD")},
		},
		Anonymous: web.None,
	}
	if err := options.Check(); err != nil { // New would panic
		fmt.Fprintln(os.Stderr, err)
		return
	}
	http.Handle("/", web.New(options))
}

// A proxy authenticates users and passes them on in headers.
func ExampleOptions_proxy() {
	options := web.Options{
		RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:6379"},
		Proxy: &web.Proxy{
			From:         []string{"127.0.0.1", "10.1.0.0/16"},
			UserHeader:   "X-Forwarded-User",
			GroupsHeader: "X-Forwarded-Groups",
			Groups:       map[string]web.Role{"operations": web.Operator, "platform": web.Admin},
			Role:         web.Viewer, // of all other users
		},
	}
	http.Handle("/", web.New(options))
}

// Authorize refuses actions that a role includes.
func ExampleOptions_authorize() {
	options := web.Options{
		RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:6379"},
		Users:        []web.User{{Name: "ada", Role: web.Admin, Password: os.Getenv("ADA_BCRYPT")}},
		Authorize: func(r *http.Request, a web.Action) error {
			user := web.UserFrom(r.Context())
			if strings.HasPrefix(a.Queue, "payments") && a.Verb != web.View && user.Name != "ada" {
				return errors.New("only Ada changes the queues of payments")
			}
			if a.Verb == web.TaskDelete && a.TaskID == "" {
				return errors.New("delete tasks one by one here")
			}
			return nil
		},
	}
	http.Handle("/", web.New(options))
}

// A program with its own login sets the user of each request.
func ExampleWithUser() {
	ui := web.New(web.Options{RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:6379"}, RootPath: "/queues"})
	defer ui.Close()

	session := func(r *http.Request) (name string, ok bool) { return "ada", r.Header.Get("Cookie") != "" } // your own session check
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := session(r)
		if !ok {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		user := web.User{Name: name, Role: web.Operator}
		ui.ServeHTTP(w, r.WithContext(web.WithUser(r.Context(), user)))
	})
	http.Handle("/queues/", handler)
}

// Redact removes secrets from payloads and results.
func ExampleOptions_redact() {
	redact := func(queue, taskType string, data []byte) []byte {
		var fields map[string]json.RawMessage
		if json.Unmarshal(data, &fields) != nil {
			return []byte("(hidden)")
		}
		for name := range fields {
			if name == "card" || name == "password" {
				fields[name] = json.RawMessage(`"(hidden)"`)
			}
		}
		shown, err := json.Marshal(fields)
		if err != nil {
			return []byte("(hidden)")
		}
		return shown
	}
	options := web.Options{RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:6379"}, Redact: redact}
	ui := web.New(options)
	defer ui.Close()

	fmt.Printf("%s\n", redact("payments", "payment:capture", []byte(`{"amount":12345678901234567890,"card":"4111"}`)))
	// Output: {"amount":12345678901234567890,"card":"(hidden)"}
}

// Formatters format payloads and results in a custom encoding as text.
func ExamplePayloadFormatterFunc() {
	options := web.Options{
		RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:6379"},
		PayloadFormatter: web.PayloadFormatterFunc(func(taskType string, payload []byte) string {
			return string(bytes.ReplaceAll(payload, []byte{0}, []byte{' '}))
		}),
	}
	http.Handle("/", web.New(options))
}

// Logger receives the audit log and errors.
func ExampleOptions_logger() {
	options := web.Options{
		RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:6379"},
		Logger:       slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	}
	http.Handle("/", web.New(options))
}
