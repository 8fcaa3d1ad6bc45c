package ui

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// Config says what a Handler shows, and to whom.
type Config struct {
	Source Source
	Token  string   // what a request of the API must have as its bearer token; see NewToken
	Hosts  []string // HOST:PORT or HOST by which the page may be asked for

	Cluster string   // name, for people
	User    string   // as whom this asks the cluster
	Role    string   // of the user: observe, submit or admin
	Flags   []string // of the commands that the page shows, such as --to hpc
	Version string   // of this program
	Alone   bool     // the cluster runs only to be looked at: no task runs
	Now     func() time.Time
}

// NewToken makes a token: 32 random bytes as text.
func NewToken() string {
	var b [32]byte
	rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Handler answers all requests of the page. Close ends its pollers and streams.
type Handler struct {
	cfg    Config
	token  [sha256.Size]byte
	mux    *http.ServeMux
	files  files
	topics topics
	life   context.Context
	end    context.CancelFunc
	work   sync.WaitGroup
}

// New makes a Handler.
func New(cfg Config) (*Handler, error) {
	if len(cfg.Token) < 32 {
		return nil, errors.New("the page needs a token of 32 characters at least")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	served, err := readFiles()
	if err != nil {
		return nil, err
	}
	h := &Handler{cfg: cfg, token: sha256.Sum256([]byte(cfg.Token)), mux: http.NewServeMux(), files: served}
	h.life, h.end = context.WithCancel(context.Background())
	h.topics.open = map[string]*topic{}
	api := func(pattern string, f func(r *http.Request) (any, error)) {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.answer(w, r, f) })
	}
	api("GET /api/v1/about", h.about)
	api("GET /api/v1/jobs", h.jobs)
	api("GET /api/v1/jobs/{job}/tasks", h.tasks)
	api("GET /api/v1/jobs/{job}/task", h.task)
	api("GET /api/v1/jobs/{job}/log", h.log)
	api("GET /api/v1/jobs/{job}/timeline", h.timeline)
	api("GET /api/v1/topic/{topic}", h.once)
	api("POST /api/v1/jobs/{job}/{action}", h.steer)
	api("POST /api/v1/hosts/{host}/drain", h.drain)
	h.mux.HandleFunc("GET /api/v1/stream", h.stream)
	h.mux.HandleFunc("GET /", h.files.serve)
	return h, nil
}

// Close ends all streams and pollers, and waits for them. Call it before the Source ends.
func (h *Handler) Close() {
	h.end()
	h.work.Wait()
}

// policy lets the page load what this handler serves, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"

// ServeHTTP checks where a request was meant for and who asks.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !h.asked(r.Host) { // a page elsewhere may have its own name point here
		http.Error(w, "this address is not one of those by which the page may be asked for: see docs/ui.md, --host", http.StatusMisdirectedRequest)
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && strings.HasPrefix(r.URL.Path, "/api/") {
		http.Error(w, "this is not for pages of other sites", http.StatusForbidden)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/") {
		head.Set("Cache-Control", "no-store")
		if !h.bears(r) {
			head.Set("WWW-Authenticate", "Bearer")
			h.refuse(w, http.StatusUnauthorized, "the page was opened without its token, or with one of another start: open the address that cascade ui printed")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	}
	h.mux.ServeHTTP(w, r)
}

// mostBody is the largest body of a request, in bytes: an action with names of tasks.
const mostBody = 1 << 20

func (h *Handler) asked(host string) bool {
	if slices.Contains(h.cfg.Hosts, host) {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	return err == nil && slices.Contains(h.cfg.Hosts, name)
}

func (h *Handler) bears(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1
}

// askTime bounds a question to the cluster.
const askTime = 30 * time.Second

// answer writes what f returns as JSON.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, f func(r *http.Request) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	stop := context.AfterFunc(h.life, cancel)
	defer stop()
	value, err := f(r.WithContext(ctx))
	if err != nil {
		h.refuse(w, statusOf(err), sentence(err))
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		h.refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	writeAll(w, r, text)
}

// refuse says why there is no answer.
func (h *Handler) refuse(w http.ResponseWriter, status int, why string) {
	text, err := json.Marshal(map[string]string{"error": why})
	if err != nil {
		text = []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the page may be gone
}

// badRequest is an error of the one who asks.
type badRequest struct{ error }

func badf(format string, args ...any) error { return badRequest{fmt.Errorf(format, args...)} }

func statusOf(err error) int {
	var bad badRequest
	switch {
	case errors.As(err, &bad), errors.Is(err, cascade.ErrBadRequest):
		return http.StatusBadRequest
	case errors.Is(err, cascade.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, cascade.ErrDenied):
		return http.StatusForbidden
	case errors.Is(err, cascade.ErrConflict):
		return http.StatusConflict
	case errors.Is(err, cascade.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// sentence is an error for people.
func sentence(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the cluster has not answered for " + askTime.String()
	}
	return err.Error()
}

func (h *Handler) about(*http.Request) (any, error) {
	return map[string]any{"cluster": h.cfg.Cluster, "user": h.cfg.User, "role": h.cfg.Role, "flags": append([]string{}, h.cfg.Flags...), "version": h.cfg.Version}, nil
}

// jobOf is the job that a path names.
func jobOf(r *http.Request) (comms.JobID, error) {
	id, err := comms.ParseJobID(r.PathValue("job"))
	if err != nil {
		return id, badf("%q is not the ID of a job", r.PathValue("job"))
	}
	return id, nil
}
