package reconnect

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// apiServer serves ConfigMaps, and expires all watches of before its last start.
type apiServer struct {
	mu      sync.Mutex
	down    bool
	version int
	objects []corev1.ConfigMap
	watches []*io.PipeWriter
}

func (s *apiServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		_ = w.CloseWithError(syscall.ECONNRESET)
	}
	s.down, s.watches = true, nil
}

func (s *apiServer) start(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	s.version++
	s.objects = append(s.objects, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
}

// RoundTrip answers as a client's connection does.
func (s *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query, version := request.URL.Query(), strconv.Itoa(s.version)
	switch {
	case s.down:
		return nil, syscall.ECONNREFUSED
	case query.Get("sendInitialEvents") != "":
		return answer(apierrors.NewBadRequest("not supported").Status())
	case query.Get("watch") == "":
		return answer(corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: s.objects})
	case query.Get("resourceVersion") != version:
		return answer(apierrors.NewResourceExpired("expired").Status())
	}
	body, watch := io.Pipe()
	s.watches = append(s.watches, watch)
	return &http.Response{StatusCode: http.StatusOK, Header: jsonContent, Body: body}, nil
}

var jsonContent = http.Header{"Content-Type": {"application/json"}}

func answer(object any) (*http.Response, error) {
	code := http.StatusOK
	if status, ok := object.(metav1.Status); ok {
		code = int(status.Code)
	}
	body, err := json.Marshal(object)
	return &http.Response{StatusCode: code, Header: jsonContent, Body: io.NopCloser(bytes.NewReader(body))}, err
}

// With the cache of controller-runtime in place of NewCache, the test fails.
func TestACacheFollowsSoonAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := &apiServer{}
		server.start("before")
		mapper := testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme)
		c, err := NewCache(&rest.Config{Host: "https://hub", Transport: server}, cache.Options{Scheme: scheme.Scheme, Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		synctest.Wait()
		read := func() int {
			t.Helper()
			list := &corev1.ConfigMapList{}
			if err := c.List(ctx, list); err != nil {
				t.Fatal(err)
			}
			return len(list.Items)
		}
		if n := read(); n != 1 {
			t.Fatalf("%d objects before the outage, want 1", n)
		}
		server.stop()
		time.Sleep(10 * time.Minute)
		server.start("after")
		time.Sleep(5 * time.Second)
		if n := read(); n != 2 {
			t.Errorf("%d objects 5 s after the outage, want 2", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
