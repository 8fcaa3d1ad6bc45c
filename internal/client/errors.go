package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cascade-run/cascade/comms"
)

// Errors of requests, for errors.Is.
var (
	ErrBadRequest  = errors.New("bad request")
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrUnavailable = errors.New("unavailable")
	ErrLost        = errors.New("data lost")
	ErrStoreFull   = errors.New("store full")
	ErrInternal    = errors.New("internal error")
	ErrClosed      = errors.New("client is closed")
	ErrDenied      = errors.New("not permitted") // by the role of our certificate, or for want of one
)

// replyError turns a refusal into an error that errors.Is recognises.
func replyError(r *comms.Reply) error {
	sentinels := map[comms.Code]error{
		comms.CodeBadRequest:  ErrBadRequest,
		comms.CodeNotFound:    ErrNotFound,
		comms.CodeConflict:    ErrConflict,
		comms.CodeUnavailable: ErrUnavailable,
		comms.CodeLost:        ErrLost,
		comms.CodeMemory:      ErrStoreFull,
		comms.CodeDenied:      ErrDenied,
	}
	if r.Code == comms.CodeOK {
		return nil
	}
	sentinel, ok := sentinels[r.Code]
	if !ok {
		sentinel = ErrInternal
	}
	if r.Message == "" {
		return sentinel
	}
	if text, ok := strings.CutPrefix(r.Message, sentinel.Error()+": "); ok {
		return fmt.Errorf("%w: %s", sentinel, text)
	}
	return fmt.Errorf("%w: %s", sentinel, r.Message)
}
