package bulkheadhttp_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// response is what a test wants to know of one.
type response struct {
	Status     int
	RetryAfter []string
	Body       string
}

// answerOf returns what h answers to a request whose context is ctx.
func answerOf(ctx context.Context, h http.Handler) response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return response{w.Code, w.Result().Header["Retry-After"], w.Body.String()}
}

// fullBulkhead returns a bulkhead of limit 1 without a free permit.
func fullBulkhead(t *testing.T, maxWait time.Duration) *bulkhead.Bulkhead[int] {
	t.Helper()
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1, MaxWait: maxWait, MaxQueue: 1})
	if _, ok := b.TryAcquire(); !ok {
		t.Fatal("no permit in a new bulkhead")
	}
	return b
}

func unreachable(t *testing.T) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { t.Error("the request reached the handler") }
}

func TestAnswerIsAsTheOptionsSay(t *testing.T) {
	unavailable := "Service Unavailable\n"
	for _, tc := range []struct {
		reason string
		opts   bulkheadhttp.HandlerOptions
		want   response
	}{
		{"the default", bulkheadhttp.HandlerOptions{}, response{503, []string{"1"}, unavailable}},
		{"another status, and its text", bulkheadhttp.HandlerOptions{Status: 429}, response{429, []string{"1"}, "Too Many Requests\n"}},
		{"the lowest status", bulkheadhttp.HandlerOptions{Status: 400}, response{400, []string{"1"}, "Bad Request\n"}},
		{"the highest status, which has no text", bulkheadhttp.HandlerOptions{Status: 599}, response{599, []string{"1"}, "\n"}},
		{"another body", bulkheadhttp.HandlerOptions{Body: "come back later"}, response{503, []string{"1"}, "come back later\n"}},
		{"whole seconds", bulkheadhttp.HandlerOptions{RetryAfter: time.Minute}, response{503, []string{"60"}, unavailable}},
		{"a fraction is rounded up", bulkheadhttp.HandlerOptions{RetryAfter: 2*time.Second + 1}, response{503, []string{"3"}, unavailable}},
		{"and does not become 0", bulkheadhttp.HandlerOptions{RetryAfter: 1}, response{503, []string{"1"}, unavailable}},
		{"nor overflow", bulkheadhttp.HandlerOptions{RetryAfter: bulkhead.Forever}, response{503, []string{"9223372037"}, unavailable}},
		{"no Retry-After", bulkheadhttp.HandlerOptions{RetryAfter: -1}, response{503, nil, unavailable}},
	} {
		got := answerOf(t.Context(), bulkheadhttp.NewHandler(fullBulkhead(t, 0), unreachable(t), tc.opts))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: answer (-want +got):\n%s", tc.reason, diff)
		}
	}
}

// What the answer is depends on why there is no permit, and so does what Reject
// is asked.
func TestAnswerDependsOnTheReason(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	errStop := errors.New("shutting down")
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errStop)

	closed := fullBulkhead(t, 0)
	closed.Close()
	queue := fullBulkhead(t, bulkhead.Forever)
	queue.AcquireAsync(t.Context()) // one waits
	defer queue.Close()

	unavailable := "Service Unavailable\n"
	for _, tc := range []struct {
		reason string
		ctx    context.Context
		b      bulkhead.Any
		want   response
		reject error // what Reject's error matches; nil if Reject is not asked
	}{
		{"full", t.Context(), fullBulkhead(t, 0), response{503, []string{"1"}, unavailable}, bulkhead.ErrFull},
		{"timed out", t.Context(), fullBulkhead(t, 1), response{503, []string{"1"}, unavailable}, bulkhead.ErrFull},
		{"queue full", t.Context(), queue, response{503, []string{"1"}, unavailable}, bulkhead.ErrFull},
		{"too heavy", t.Context(), fullBulkhead(t, 0).Weighing(2), response{503, nil, unavailable}, bulkhead.ErrTooHeavy},
		{"closed", t.Context(), closed, response{503, nil, unavailable}, bulkhead.ErrClosed},
		{"the client has left", left, fullBulkhead(t, 0), response{499, nil, ""}, nil},
		{"a deadline has passed", late, fullBulkhead(t, 0), response{503, []string{"1"}, unavailable}, context.DeadlineExceeded},
		{"the server stops", stopped, fullBulkhead(t, 0), response{503, nil, unavailable}, errStop},
		{"no weight", t.Context(), fullBulkhead(t, 0).Weighing(0), response{500, nil, "Internal Server Error\n"}, errAny},
		{"a negative wait", t.Context(), fullBulkhead(t, 0).Waiting(-1), response{500, nil, "Internal Server Error\n"}, errAny},
	} {
		got := answerOf(discardLog(tc.ctx), bulkheadhttp.NewHandler(tc.b, unreachable(t), bulkheadhttp.HandlerOptions{}))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: answer (-want +got):\n%s", tc.reason, diff)
		}

		var rejected error
		got = answerOf(tc.ctx, bulkheadhttp.NewHandler(tc.b, unreachable(t), bulkheadhttp.HandlerOptions{
			Reject: func(w http.ResponseWriter, r *http.Request, err error) {
				rejected = err
				http.Error(w, "rejected", http.StatusTeapot)
			},
		}))
		want := response{http.StatusTeapot, nil, "rejected\n"}
		if tc.reject == nil {
			want = tc.want
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: answer with Reject (-want +got):\n%s", tc.reason, diff)
		}
		if ok := errors.Is(rejected, tc.reject) || tc.reject == errAny && rejected != nil; !ok {
			t.Errorf("%s: Reject is asked with %v, want %v", tc.reason, rejected, tc.reject)
		}
	}
}

var errAny = errors.New("any error")

// discardLog returns ctx for a request to a server that logs nothing.
func discardLog(ctx context.Context) context.Context {
	return context.WithValue(ctx, http.ServerContextKey, &http.Server{ErrorLog: log.New(io.Discard, "", 0)})
}

// A fault of the server's must not go unnoticed, and clients need not know it.
func TestWrongWeightIsLogged(t *testing.T) {
	h := bulkheadhttp.NewHandler(fullBulkhead(t, 0), unreachable(t), bulkheadhttp.HandlerOptions{
		Weight: func(*http.Request) int64 { return -7 },
	})
	var text strings.Builder
	for _, tc := range []struct {
		reason string
		srv    *http.Server // whose request it is; nil if none is known
	}{
		{"no server", nil},
		{"a server without a log of its own", &http.Server{}},
		{"the server's own log", &http.Server{ErrorLog: log.New(&text, "", 0)}},
	} {
		ctx := t.Context()
		if tc.srv != nil {
			ctx = context.WithValue(ctx, http.ServerContextKey, tc.srv)
		}
		if tc.srv == nil || tc.srv.ErrorLog == nil {
			restore := captureLog(&text)
			defer restore()
		}
		answerOf(ctx, h)
		if want := "bulkheadhttp: bulkhead \"server\": weight is -7, want at least 1\n"; text.String() != want {
			t.Errorf("%s: logged %q, want %q", tc.reason, &text, want)
		}
		text.Reset()
	}
}

// Even if there is nobody to answer.
func TestWrongWeightIsLoggedWhenTheClientHasLeft(t *testing.T) {
	h := bulkheadhttp.NewHandler(fullBulkhead(t, 0), unreachable(t), bulkheadhttp.HandlerOptions{
		Weight: func(*http.Request) int64 { return 0 },
	})
	var text strings.Builder
	defer captureLog(&text)()
	left, leave := context.WithCancel(t.Context())
	leave()
	if got := answerOf(left, h); got.Status != http.StatusInternalServerError || text.Len() == 0 {
		t.Errorf("status %d, logged %q; want 500 and the reason", got.Status, &text)
	}
}

// captureLog makes the standard logger write to w until restore.
func captureLog(w io.Writer) (restore func()) {
	out, flags := log.Writer(), log.Flags()
	log.SetOutput(w)
	log.SetFlags(0)
	return func() {
		log.SetOutput(out)
		log.SetFlags(flags)
	}
}

func TestNewHandlerRefusesNonsense(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	for _, tc := range []struct {
		b    bulkhead.Any
		next http.Handler
		opts bulkheadhttp.HandlerOptions
		want string
	}{
		{nil, unreachable(t), bulkheadhttp.HandlerOptions{}, "bulkheadhttp: NewHandler with a nil bulkhead"},
		{(*bulkhead.Bulkhead[int])(nil), unreachable(t), bulkheadhttp.HandlerOptions{}, "bulkheadhttp: NewHandler with a nil bulkhead"},
		{b, nil, bulkheadhttp.HandlerOptions{}, "bulkheadhttp: NewHandler with a nil handler"},
		{b, unreachable(t), bulkheadhttp.HandlerOptions{Status: -1}, "bulkheadhttp: HandlerOptions.Status is -1, want 400 to 599"},
		{b, unreachable(t), bulkheadhttp.HandlerOptions{Status: 200}, "bulkheadhttp: HandlerOptions.Status is 200, want 400 to 599"},
		{b, unreachable(t), bulkheadhttp.HandlerOptions{Status: 399}, "bulkheadhttp: HandlerOptions.Status is 399, want 400 to 599"},
		{b, unreachable(t), bulkheadhttp.HandlerOptions{Status: 600}, "bulkheadhttp: HandlerOptions.Status is 600, want 400 to 599"},
	} {
		func() {
			defer func() {
				if got := recover(); got != tc.want {
					t.Errorf("NewHandler panics with %v, want %q", got, tc.want)
				}
			}()
			bulkheadhttp.NewHandler(tc.b, tc.next, tc.opts)
		}()
	}
}
