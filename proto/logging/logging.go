package logging

import (
	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// New returns a logger with these options that encodes its values when something is logged with
// them. Each reconcile has a logger with values of its own, and few log anything.
func New(options *zap.Options) logr.Logger {
	return zap.New(zap.UseFlagOptions(options), zap.RawZapOpts(uberzap.WrapCore(func(c zapcore.Core) zapcore.Core { return lazy{c} })))
}

// lazy encodes the fields of a logger when they are written first.
type lazy struct{ zapcore.Core }

func (l lazy) With(fields []zapcore.Field) zapcore.Core {
	return lazy{zapcore.NewLazyWith(l.Core, fields)}
}
