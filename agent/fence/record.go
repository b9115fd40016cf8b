package fence

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/objects"
)

// ConfigMapName is where an agent keeps its lease, in its own namespace.
const ConfigMapName = "vdi-agent-fence"

// Keys of the ConfigMap.
const (
	keyBoot     = "bootID"
	keySentBoot = "sentSinceBoot" // nanoseconds
	keySentWall = "sentTime"      // RFC 3339
	keyLength   = "lease"         // as Go writes durations
	keyLapse    = "lapse"
	keyMarking  = "marking"
)

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=configmaps,resourceNames=vdi-agent-fence,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=configmaps,verbs=create

func (r Record) encode() map[string]string {
	return map[string]string{
		keyBoot:     r.BootID,
		keySentBoot: strconv.FormatInt(int64(r.Sent.Boot), 10),
		keySentWall: r.Sent.Wall.UTC().Format(time.RFC3339Nano),
		keyLength:   r.Length.String(),
		keyLapse:    strconv.FormatInt(r.Lapse, 10),
		keyMarking:  strconv.FormatBool(r.Marking),
	}
}

// decode reads a record. An invalid one counts as none, which is a lapse: the assignments
// have the number of the last one as well.
func decode(data map[string]string) (*Record, error) {
	var (
		r    = &Record{BootID: data[keyBoot]}
		errs [5]error
		sent int64
	)
	sent, errs[0] = strconv.ParseInt(data[keySentBoot], 10, 64)
	r.Sent.Boot = time.Duration(sent)
	r.Sent.Wall, errs[1] = time.Parse(time.RFC3339Nano, data[keySentWall])
	r.Length, errs[2] = time.ParseDuration(data[keyLength])
	r.Lapse, errs[3] = strconv.ParseInt(data[keyLapse], 10, 64)
	r.Marking, errs[4] = strconv.ParseBool(data[keyMarking])
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %w", ConfigMapName, err)
	}
	if r.Lapse < 0 || r.BootID == "" {
		return nil, fmt.Errorf("ConfigMap %s: lapse %d, boot %q", ConfigMapName, r.Lapse, r.BootID)
	}
	return r, nil
}

// recordStore stores the record in a ConfigMap of the member. It is for one goroutine.
type recordStore struct {
	objects.Store
	// version and data were last read or written, and are empty without a record. A write
	// requires that version: another process may lead by now.
	version string
	data    map[string]string
}

// load reads the record, and returns nil if there is none. An error with ok means that the
// record is invalid.
func (s *recordStore) load(ctx context.Context) (r *Record, ok bool, err error) {
	m, err := s.read(ctx)
	if err != nil {
		return nil, false, err
	}
	s.version, s.data = m.ResourceVersion, m.Data
	if m.ResourceVersion == "" {
		return nil, true, nil
	}
	r, err = decode(m.Data)
	return r, true, err
}

// read returns the ConfigMap, or an empty one.
func (s *recordStore) read(ctx context.Context) (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{}
	if err := s.Read(ctx, ConfigMapName, m); err != nil {
		return nil, fmt.Errorf("reading the record of the lease: %w", err)
	}
	return m, nil
}

func (s *recordStore) save(ctx context.Context, r Record) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: s.version}, Data: r.encode()}
	err := s.Write(ctx, ConfigMapName, m)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return s.resolve(ctx, r, err)
	}
	if err != nil {
		return fmt.Errorf("storing the record of the lease: %w", err)
	}
	s.version, s.data = m.ResourceVersion, m.Data
	return nil
}

// resolve reads the record after a conflict. One with the written data is this process's:
// the answer to the write was lost, or a label was set.
func (s *recordStore) resolve(ctx context.Context, tried Record, cause error) error {
	m, err := s.read(ctx)
	if err != nil {
		return err
	}
	switch {
	case maps.Equal(m.Data, tried.encode()):
		s.version, s.data = m.ResourceVersion, m.Data
		return nil
	case maps.Equal(m.Data, s.data):
		s.version = m.ResourceVersion
	}
	return fmt.Errorf("storing the record of the lease: %w", cause)
}
