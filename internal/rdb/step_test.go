package rdb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// stepGrace is the delay of the settlement of a task that awaits a signal.
const stepGrace = 5 * time.Second

// stepRig is a queue q with the task a, and the calls of its attempts.
type stepRig struct {
	r *redistest.Redis
	b *rdb.Broker
}

func (s *stepRig) write(token string, kind wire.StepKind, name, value string, d time.Duration) (*rdb.StepWrite, error) {
	w := &rdb.StepWrite{Queue: "q", ID: "a", Token: token, Name: name, Kind: kind, Value: []byte(value), For: d}
	return w, s.b.WriteStep(context.Background(), w)
}

func (s *stepRig) mustWrite(t testing.TB, token string, kind wire.StepKind, name, value string, d time.Duration) *rdb.StepWrite {
	t.Helper()
	w, err := s.write(token, kind, name, value, d)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (s *stepRig) signal(t testing.TB, name string) {
	t.Helper()
	if err := s.b.Signal(context.Background(), "q", "a", name, []byte("1")); err != nil {
		t.Fatal(err)
	}
}

func (s *stepRig) read(t testing.TB, token string) *rdb.StepState {
	t.Helper()
	state, err := s.b.ReadSteps(context.Background(), "q", "a", token)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// settle ends the attempt of a token with a snooze. If await is set, the call that lets the task
// sleep follows.
func (s *stepRig) settle(t testing.TB, token string, await bool) script.Code {
	t.Helper()
	settlement := &rdb.Settlement{
		Queue: "q", ID: "a", Token: token, Outcome: rdb.Defer, Delay: stepGrace, Extra: &rdb.Extra{Await: await},
		Message: redistest.Encode(t, redistest.Message("q", "a")),
	}
	s.b.RoundTrip(context.Background(), &rdb.RoundTrip{Settle: []*rdb.Settlement{settlement}})
	if settlement.Err != nil {
		t.Fatal(settlement.Err)
	}
	return settlement.Code
}

// park repeats only the call that lets the task sleep: its settlement is over.
func (s *stepRig) park(t testing.TB, token string) { s.settle(t, token, true) }

func (s *stepRig) field(t testing.TB, name string) string {
	t.Helper()
	value, err := s.r.Client().HGet(context.Background(), "asynq:{q}:t:a", name).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return value
}

// due returns when the task leaves a sorted set, from now; zero if it is not in the set.
func (s *stepRig) due(t testing.TB, set string) time.Duration {
	t.Helper()
	score, err := s.r.Client().ZScore(context.Background(), "asynq:{q}:"+set, "a").Result()
	if errors.Is(err, redis.Nil) {
		return 0
	} else if err != nil {
		t.Fatal(err)
	}
	return time.Until(time.UnixMilli(int64(score * 1000)))
}

func eachStepRig(t *testing.T, test func(t *testing.T, s *stepRig)) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Make(t, redistest.NewTask(t, "q", "a"))
		test(t, &stepRig{r: r, b: r.Broker()})
	})
}

func TestWriteStep(t *testing.T) {
	eachStepRig(t, func(t *testing.T, s *stepRig) {
		if _, err := s.write("f1", wire.StepRun, "s", "1", 0); !errors.Is(err, script.ErrTokenLost) {
			t.Errorf("of a pending task: %v", err)
		}
		token := s.r.Fetch(t, "q", 1).Token
		if w := s.mustWrite(t, token, wire.StepRun, "s p", `{"a": 1}`, 0); w.Code != script.CodeOK {
			t.Errorf("code %d", w.Code)
		}
		if w := s.mustWrite(t, token, wire.StepRun, "s p", `{"a": 2}`, 0); w.Code != script.CodeAlready {
			t.Errorf("repeated: code %d", w.Code)
		}
		step, ok := wire.DecodeStep(s.field(t, "step:s p"))
		if !ok || step.Kind != wire.StepRun || string(step.Value) != `{"a": 1}` || time.Since(time.UnixMilli(step.At)).Abs() > time.Minute {
			t.Errorf("record %+v", step)
		}
		slept := s.mustWrite(t, token, wire.StepSleep, "nap", "", 90*time.Minute)
		if again := s.mustWrite(t, token, wire.StepSleep, "nap", "", time.Second); again.Record != slept.Record {
			t.Errorf("second call: %q, first %q", again.Record, slept.Record)
		}
		if step, ok := wire.DecodeStep(slept.Record); !ok || step.Until-step.At != 90*60*1000 || step.At != slept.Now {
			t.Errorf("record %+v", step)
		}
		if w := s.mustWrite(t, token, wire.StepWait, "nap", "", 0); w.Record != slept.Record || w.Code != script.CodeAlready {
			t.Errorf("wait of a sleep: %+v", w)
		}
		if s.field(t, wire.FieldAwaits) != "" {
			t.Error("the task awaits a signal")
		}
		for _, token := range []string{"", "other"} {
			if _, err := s.write(token, wire.StepRun, "t", "1", 0); !errors.Is(err, script.ErrTokenLost) {
				t.Errorf("token %q: %v", token, err)
			}
			if _, err := s.b.ReadSteps(context.Background(), "q", "a", token); !errors.Is(err, script.ErrTokenLost) {
				t.Errorf("read with token %q: %v", token, err)
			}
		}
		if s.field(t, "step:t") != "" {
			t.Error("a step without the lease is recorded")
		}
		if _, err := s.b.ReadSteps(context.Background(), "q", "none", token); !errors.Is(err, script.ErrTaskGone) {
			t.Errorf("read of no task: %v", err)
		}
		state := s.read(t, token)
		if len(state.Steps) != 2 || state.Steps["nap"] != slept.Record || len(state.Signals) != 0 {
			t.Errorf("read %+v", state)
		}
	})
}

func TestSignalWaitTimesOut(t *testing.T) {
	eachStepRig(t, func(t *testing.T, s *stepRig) {
		token := s.r.Fetch(t, "q", 1).Token
		w := s.mustWrite(t, token, wire.StepWait, "ok", "", 0)
		if step, _ := wire.DecodeStep(w.Record); step.Kind != wire.StepTimeout {
			t.Errorf("record %q", w.Record)
		}
		s.signal(t, "ok")
		if w := s.mustWrite(t, token, wire.StepWait, "ok", "", time.Hour); w.Code != script.CodeAlready || w.Signal != nil {
			t.Errorf("after the timeout: %+v", w)
		}
		// The end of a wait is that of its first call.
		redistest.Must(t, s.r.Client().HSet(context.Background(), "asynq:{q}:t:a", "step:late", "wait 5 6"))
		w = s.mustWrite(t, token, wire.StepWait, "late", "", time.Hour)
		if step, _ := wire.DecodeStep(w.Record); step.Kind != wire.StepTimeout || step.Until != 6 {
			t.Errorf("record %q", w.Record)
		}
		redistest.Must(t, s.r.Client().HSet(context.Background(), "asynq:{q}:t:a", "step:both", "wait 5 6", "sig:both", "7"))
		if w := s.mustWrite(t, token, wire.StepWait, "both", "", time.Hour); string(w.Signal) != "7" {
			t.Errorf("a signal that came before the check: %+v", w)
		}
	})
}

// Values beyond a megabyte in all are read one by one.
func TestReadStepsIsBounded(t *testing.T) {
	eachStepRig(t, func(t *testing.T, s *stepRig) {
		token := s.r.Fetch(t, "q", 1).Token
		values := make(map[string]string)
		for i := range 4 {
			name := fmt.Sprint("s", i)
			values[name] = `"` + strings.Repeat(string(rune('a'+i)), 700<<10) + `"`
			s.mustWrite(t, token, wire.StepRun, name, values[name], 0)
		}
		state := s.read(t, token)
		if len(state.Steps) != 1 || len(state.Unread) != 3 {
			t.Fatalf("%d steps read, %d not read", len(state.Steps), len(state.Unread))
		}
		for name, want := range values {
			record := state.Steps[name]
			if size, ok := state.Unread["step:"+name]; ok {
				var err error
				if record, err = s.b.ReadStep(context.Background(), "q", "a", "step:"+name); err != nil || int64(len(record)) != size {
					t.Errorf("%d bytes, want %d, error %v", len(record), size, err)
				}
			}
			if step, _ := wire.DecodeStep(record); string(step.Value) != want {
				t.Errorf("step %s: another value", name)
			}
		}
		if _, err := s.b.ReadStep(context.Background(), "q", "a", "step:none"); !errors.Is(err, script.ErrTaskGone) {
			t.Error(err)
		}
	})
}

// A signal is kept in every state but completed.
func TestSignalStates(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		redistest.SeedStates(t, r)
		b, ctx := r.Broker(), context.Background()
		before := make(map[string]string)
		for i := range 8 {
			id := fmt.Sprint("t", i+1)
			before[id] = r.Client().HGet(ctx, "asynq:{q}:t:"+id, "state").Val()
		}
		for id, state := range before {
			err := b.Signal(ctx, "q", id, "go", []byte("1"))
			if completed := state == "completed"; completed != errors.Is(err, script.ErrTaskUnfit) || !completed && err != nil {
				t.Errorf("%s: %v", state, err)
			}
			if err := b.Signal(ctx, "q", id, "go", []byte("2")); state != "completed" && err != nil {
				t.Errorf("%s: the second one: %v", state, err)
			}
			f := r.Client().HMGet(ctx, "asynq:{q}:t:"+id, "sig:go", "state").Val()
			if f[1] != state || state != "completed" && f[0] != "1" {
				t.Errorf("%s: %v", state, f)
			}
		}
		for _, queue := range []string{"q", "none"} {
			if err := b.Signal(ctx, queue, "none", "go", []byte("1")); !errors.Is(err, script.ErrTaskGone) {
				t.Error(err)
			}
		}
		for i := range wire.MaxSignals - 1 {
			if err := b.Signal(ctx, "q", "t1", fmt.Sprint(i), []byte("1")); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Signal(ctx, "q", "t1", "many", []byte("1")); !errors.Is(err, rdb.ErrTooManySignals) {
			t.Error(err)
		}
	})
}

// The signal comes between any two calls of an attempt that waits for it, and the server may die
// after any of them. The task is never left to sleep: it is pending, or runs in a few seconds.
func TestSignalIsNeverLost(t *testing.T) {
	calls := []string{"wait", "settle", "park", "park again"}
	for at := range len(calls) + 1 {
		for last := range len(calls) + 1 {
			t.Run(fmt.Sprintf("after %d calls, death after %d", at, last), func(t *testing.T) {
				eachStepRig(t, func(t *testing.T, s *stepRig) {
					token := s.r.Fetch(t, "q", 1).Token
					received := false
					for i := range len(calls) + 1 {
						if i == at {
							s.signal(t, "go")
						}
						if i >= last || i == len(calls) {
							continue // dead
						}
						switch calls[i] {
						case "wait":
							received = s.mustWrite(t, token, wire.StepWait, "go", "", time.Hour).Signal != nil
						case "settle":
							if !received {
								s.settle(t, token, false)
							}
						default:
							if !received {
								s.park(t, token)
							}
						}
					}
					switch state := s.field(t, "state"); state {
					case "active":
						if last > 1 && !received {
							t.Error("the attempt is not settled")
						}
					case "retry":
						if due := s.due(t, "retry"); due > stepGrace+time.Second || last > 2 {
							t.Errorf("the task sleeps for %v", due)
						}
						return // another server runs it soon
					case "pending":
						if n := s.r.Client().Exists(context.Background(), "asynq:{q}:marker").Val(); n != 1 {
							t.Error("no marker")
						}
						token = s.r.Fetch(t, "q", 1).Token
					}
					if state := s.read(t, token); state.Signals["go"] != "1" {
						t.Errorf("read %+v", state)
					}
				})
			})
		}
	}
}

// A task sleeps until its wait ends, and goes to the front of pending with the signal for which it
// waits, and with no other.
func TestAwaitSignal(t *testing.T) {
	eachStepRig(t, func(t *testing.T, s *stepRig) {
		for _, millis := range []bool{false, true} {
			s.b.MillisecondTimes = millis
			token := s.r.Fetch(t, "q", 1).Token
			name := fmt.Sprint("millis ", millis)
			step, _ := wire.DecodeStep(s.mustWrite(t, token, wire.StepWait, name, "", time.Hour).Record)
			if code := s.settle(t, token, true); code != script.CodeOK {
				t.Fatalf("code %d", code)
			}
			want := float64(step.Until) / 1000
			if !millis {
				want = float64((step.Until + 999) / 1000)
			}
			if score := s.r.Client().ZScore(context.Background(), "asynq:{q}:retry", "a").Val(); score != want {
				t.Errorf("due at %f, want %f", score, want)
			}
			s.signal(t, "other")
			if state := s.field(t, "state"); state != "retry" {
				t.Errorf("after another signal: %s", state)
			}
			s.r.Make(t, redistest.NewTask(t, "q", fmt.Sprint("other ", millis)))
			s.signal(t, name)
			if ids := s.r.Client().LRange(context.Background(), "asynq:{q}:pending", -1, -1).Val(); len(ids) != 1 || ids[0] != "a" {
				t.Errorf("front of pending: %q", ids)
			}
		}
		token := s.r.Fetch(t, "q", 1).Token
		s.read(t, token)
		if s.field(t, wire.FieldAwaits) != "" {
			t.Error("an active task awaits a signal")
		}
	})
}

// A late call that lets a task sleep does not delay its later attempts.
func TestAwaitSignalIsOfOneAttempt(t *testing.T) {
	eachStepRig(t, func(t *testing.T, s *stepRig) {
		first := s.r.Fetch(t, "q", 1).Token
		s.mustWrite(t, first, wire.StepWait, "go", "", time.Hour)
		s.settle(t, first, false)
		change(t, s.r, "q", inspect.Run, "a")
		second := s.r.Fetch(t, "q", 1).Token
		s.park(t, first)
		if state := s.field(t, "state"); state != "active" {
			t.Errorf("state %s", state)
		}
		s.settle(t, second, false)
		s.park(t, first)
		if due := s.due(t, "retry"); due > stepGrace+time.Second {
			t.Errorf("due in %v", due)
		}
	})
}

func change(t testing.TB, r *redistest.Redis, queue string, verb inspect.Verb, id string) {
	t.Helper()
	ch := inspect.Change{Verb: verb, Queue: queue, At: time.Now().Add(2 * time.Hour).Unix()}
	codes, err := inspect.New(r.Broker()).Change(context.Background(), ch, []string{id})
	if err != nil || codes[0].Err() != nil && codes[0] != script.CodeUnfit {
		t.Fatalf("%v: %v, %v", verb, codes, err)
	}
}

// TestSignalModel makes random calls of attempts, servers that die, and an operator. After each, a
// task that has the signal for which it waits does not sleep, unless the operator wants it to.
func TestSignalModel(t *testing.T) {
	redistest.LimitChecks(t, 60)
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		rapid.Check(t, func(rt *rapid.T) {
			if err := r.Client().FlushDB(context.Background()).Err(); err != nil {
				rt.Fatal(err)
			}
			m := &signalMachine{stepRig: stepRig{r: r, b: r.Broker()}, t: t}
			r.Make(t, redistest.NewTask(t, "q", "a"))
			rt.Repeat(map[string]func(*rapid.T){
				"fetch": m.fetch, "wait": m.wait, "settle": m.settleOpen, "park": m.parkAny, "signal": m.sendSignal, "die": m.die,
				"elapse": m.elapse, "operator": m.operate, "": m.check,
			})
			m.finish()
		})
	})
}

type signalMachine struct {
	stepRig
	t        *testing.T
	tokens   []string // of all attempts
	open     string   // the token of the attempt that runs
	waits    bool     // it waits for the signal
	signaled bool
	received bool // an attempt has the signal
	byHand   bool // an operator has chosen the time of the task
}

func (m *signalMachine) fetch(rt *rapid.T) {
	if m.field(m.t, "state") != "pending" || m.open != "" {
		return
	}
	m.open = m.r.Fetch(m.t, "q", 1).Token
	m.tokens, m.waits, m.byHand = append(m.tokens, m.open), false, false
	if got := m.read(m.t, m.open).Signals["go"] != ""; got != m.signaled {
		rt.Fatalf("an attempt has the signal: %v, want %v", got, m.signaled)
	}
}

func (m *signalMachine) wait(rt *rapid.T) {
	if m.open == "" {
		return
	}
	w := m.mustWrite(m.t, m.open, wire.StepWait, "go", "", time.Hour)
	if (w.Signal != nil) != m.signaled {
		rt.Fatalf("signal %q, want one: %v", w.Signal, m.signaled)
	}
	m.waits, m.received = !m.signaled, m.received || m.signaled
}

func (m *signalMachine) settleOpen(rt *rapid.T) {
	if m.open == "" || !m.waits {
		return
	}
	if code := m.settle(m.t, m.open, rapid.Bool().Draw(rt, "park")); code != script.CodeOK {
		rt.Fatalf("code %d", code)
	}
	m.open = ""
}

func (m *signalMachine) parkAny(rt *rapid.T) {
	if len(m.tokens) == 0 {
		return
	}
	if token := rapid.SampledFrom(m.tokens).Draw(rt, "token"); token != m.open {
		m.park(m.t, token)
	}
}

func (m *signalMachine) sendSignal(*rapid.T) {
	if !m.signaled && m.field(m.t, wire.FieldAwaits) != "" {
		m.byHand = m.field(m.t, "state") == "archived" // else it becomes pending, if it is not
	}
	m.signal(m.t, "go")
	m.signaled = true
}

// die lets the lease of the attempt expire, and a server recover the task.
func (m *signalMachine) die(rt *rapid.T) {
	if m.open == "" {
		return
	}
	redistest.ExpireLeases(m.t, m.r, time.Hour, "a")
	s := &rdb.Settlement{Queue: "q", ID: "a", Token: m.open, Outcome: rdb.Retry, Delay: stepGrace, Message: redistest.FailedMessage(m.t, "a")}
	m.b.RoundTrip(context.Background(), &rdb.RoundTrip{Settle: []*rdb.Settlement{s}})
	if s.Err != nil || s.Code != script.CodeOK {
		rt.Fatalf("code %d, error %v", s.Code, s.Err)
	}
	m.open = ""
}

// elapse lets a few seconds pass.
func (m *signalMachine) elapse(*rapid.T) {
	for _, set := range []string{"retry", "scheduled"} {
		if due := m.due(m.t, set); due > 0 && due < stepGrace+2*time.Second {
			redistest.Must(m.t, m.r.Client().ZAddXX(context.Background(), "asynq:{q}:"+set, redis.Z{Score: 1, Member: "a"}))
		}
	}
	redistest.Forward(m.t, m.b)
}

func (m *signalMachine) operate(rt *rapid.T) {
	if m.open != "" {
		return
	}
	verb := rapid.SampledFrom([]inspect.Verb{inspect.Run, inspect.Archive, inspect.Reschedule}).Draw(rt, "verb")
	change(m.t, m.r, "q", verb, "a")
	m.byHand = verb != inspect.Run
}

func (m *signalMachine) check(rt *rapid.T) {
	if state := m.field(m.t, "state"); m.signaled && !m.byHand && (state == "retry" || state == "scheduled") {
		if due := max(m.due(m.t, "retry"), m.due(m.t, "scheduled")); due > stepGrace+time.Second {
			rt.Fatalf("the task has the signal, and sleeps for %v", due)
		}
	}
	if sig := m.field(m.t, "sig:go"); m.signaled != bytes.Equal([]byte(sig), []byte("1")) {
		rt.Fatalf("signal %q", sig)
	}
}

// finish leaves no task active.
func (m *signalMachine) finish() {
	if m.open != "" {
		redistest.Settle(m.t, m.b, rdb.Settlement{ID: "a", Token: m.open, Outcome: rdb.Done})
	}
}

// A full Redis records the steps of tasks that run, lets them sleep, and rejects signals.
func TestFullRedisRecordsSteps(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	ctx, client := context.Background(), server.Client(t)
	b := rdb.New(client, "")
	b.Enqueue(ctx, redistest.NewTask(t, "q", "a"))
	redistest.Fetch(t, b, rdb.Fetch{N: 1, Token: "f"})
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "1"))
	s := &stepRig{b: b}
	s.mustWrite(t, "f", wire.StepRun, "a", "1", 0)
	s.mustWrite(t, "f", wire.StepSleep, "b", "", 0)
	w := s.mustWrite(t, "f", wire.StepWait, "c", "", time.Hour)
	if err := b.Signal(ctx, "q", "a", "c", []byte("1")); !script.IsFull(err) {
		t.Errorf("a signal gets the error %v", err)
	}
	if code := s.settle(t, "f", true); code != script.CodeOK {
		t.Fatalf("code %d", code)
	}
	step, _ := wire.DecodeStep(w.Record)
	if score := client.ZScore(ctx, "asynq:{q}:retry", "a").Val(); score < float64(step.Until)/1000 {
		t.Errorf("due at %f, want %d", score, step.Until/1000)
	}
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "0"))
	redistest.CheckServer(t, client)
}
