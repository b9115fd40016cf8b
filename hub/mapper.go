package hub

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper remembers the resources of kinds. A cache of several namespaces asks for one at every
// read, and computing it again was a twelfth of what a busy hub allocates.
type mapper struct {
	meta.RESTMapper
	known sync.Map
}

func newMapper(cfg *rest.Config, c *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(cfg, c)
	return &mapper{RESTMapper: dynamic}, err
}

// RESTMapping returns the resource of a kind; see meta.RESTMapper.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 { // the preferred version may change
		return m.RESTMapper.RESTMapping(kind, versions...)
	}
	key := kind.WithVersion(versions[0])
	if known, ok := m.known.Load(key); ok {
		return known.(*meta.RESTMapping), nil
	}
	found, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.known.Store(key, found)
	}
	return found, err
}
