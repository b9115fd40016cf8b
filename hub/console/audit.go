package console

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
)

// auditLog has one line for each login, action and refusal.
var auditLog = ctrl.Log.WithName("audit")

// auditor writes the audit log.
type auditor struct {
	// trusted are the networks of the proxies before the console.
	trusted []netip.Prefix
}

type requestIDKey struct{}

// withRequestID returns a context with the ID of a request, which the audit log and the requests to the API
// server have.
func withRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// audit returns a function that records the result of what a user did to a session.
func (c auditor) audit(r *http.Request, user login.Identity, what string, session types.NamespacedName) func(error) {
	begin := time.Now()
	return func(err error) {
		code, text := http.StatusOK, ""
		if err != nil {
			code, text = statusOf(err)
			if code >= http.StatusInternalServerError {
				text = err.Error()
			}
		}
		actions.WithLabelValues(what, resultOf(code)).Inc()
		auditLog.Info("Action", "action", what, "user", user.Name, "groups", user.Groups, "session", session.String(),
			"address", clientAddress(r, c.trusted), "request", requestID(r.Context()), "code", code, "cause", text,
			"seconds", time.Since(begin).Seconds())
	}
}

// resultOf returns the result of an action for the metrics.
func resultOf(code int) string {
	switch {
	case code < http.StatusBadRequest:
		return "success"
	case code < http.StatusInternalServerError:
		return "refused"
	default:
		return "failure"
	}
}

// loggedInBy records the result of an attempt to log in.
func (c auditor) loggedInBy(r *http.Request, way, name string, err error) {
	result, text := "success", ""
	if err != nil {
		result, text = "failure", err.Error()
	}
	loginsTotal.WithLabelValues(way, result).Inc()
	auditLog.Info("Login", "way", way, "user", name, "address", clientAddress(r, c.trusted), "request", requestID(r.Context()),
		"result", result, "cause", text)
}
