package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A prober probes periodically during one run of a container.
type prober struct {
	c          *container
	generation int
	spec       *corev1.Probe
	// successes and failures are consecutive.
	successes, failures int32
	// verdict is called when either reaches its threshold, with the failure of the last probe
	// or nil. It reports whether to continue.
	verdict func(failure error) bool
}

// probeStart starts the startup probe of a container; the other probes start once it has
// succeeded.
func (c *container) probeStart() {
	if c.spec.StartupProbe == nil {
		c.markStarted()
		return
	}
	c.probe(c.spec.StartupProbe, func(failure error) bool {
		if failure != nil {
			c.stop("startup probe failed: "+failure.Error(), c.probeGrace(c.spec.StartupProbe))
			return false
		}
		c.markStarted()
		return false
	})
}

// markStarted marks a container as started, and starts its other probes.
func (c *container) markStarted() {
	c.started = true
	if c.spec.LivenessProbe != nil {
		c.probe(c.spec.LivenessProbe, func(failure error) bool {
			if failure == nil {
				return true
			}
			c.stop("liveness probe failed: "+failure.Error(), c.probeGrace(c.spec.LivenessProbe))
			return false
		})
	}
	if c.spec.ReadinessProbe == nil {
		c.ready = true
	} else {
		c.probe(c.spec.ReadinessProbe, func(failure error) bool {
			if ready := failure == nil; ready != c.ready {
				c.ready = ready
				c.pod.report()
			}
			return true
		})
	}
	c.pod.k.loop.do(c.pod.advance)
}

// probeGrace returns the grace period of a container whose probe has failed.
func (c *container) probeGrace(probe *corev1.Probe) time.Duration {
	if seconds := probe.TerminationGracePeriodSeconds; seconds != nil {
		return c.pod.k.seconds(*seconds)
	}
	return c.pod.grace()
}

func (c *container) probe(spec *corev1.Probe, verdict func(error) bool) {
	p := &prober{c: c, generation: c.generation, spec: spec, verdict: verdict}
	p.next(c.pod.k.seconds(int64(spec.InitialDelaySeconds)))
}

func (p *prober) next(in time.Duration) { p.c.pod.k.loop.after(in, p.run) }

// run makes one probe. The next one starts a period after this one began, or at its end if
// that is later.
func (p *prober) run() {
	k := p.c.pod.k
	if p.c.generation != p.generation {
		return
	}
	began := time.Now()
	receive := func(failure error) {
		if p.c.generation == p.generation && p.count(failure) {
			p.next(max(0, k.seconds(int64(p.spec.PeriodSeconds))-time.Since(began)))
		}
	}
	if failure, answered := p.simulatedAnswer(); answered {
		receive(failure)
		return
	}
	ip, timeout := p.c.pod.ip, k.seconds(int64(p.spec.TimeoutSeconds))
	go func() {
		failure := probe(p.spec, p.c.spec, ip, timeout)
		k.loop.do(func() { receive(failure) })
	}()
}

// count counts a result and reports whether to continue.
func (p *prober) count(failure error) bool {
	if failure == nil {
		p.successes, p.failures = p.successes+1, 0
		return p.successes < p.spec.SuccessThreshold || p.verdict(nil)
	}
	p.successes, p.failures = 0, p.failures+1
	return p.failures < p.spec.FailureThreshold || p.verdict(failure)
}

var errClosed = errors.New("nothing listens yet")

// simulatedAnswer returns the result for a simulated container: at its own ports, or at any
// port if its Pod executes no process.
func (p *prober) simulatedAnswer() (failure error, answered bool) {
	s, isOne := p.c.process.(*simulated)
	if !isOne {
		return nil, false
	}
	port, named := probedPort(p.spec)
	if named && p.c.pod.guarded() {
		if _, err := ownPort(p.c.spec, port); err != nil {
			return nil, false
		}
	}
	if s.open {
		return nil, true
	}
	return errClosed, true
}

// guarded reports whether one of the Pod's containers is executed as a process.
func (p *pod) guarded() bool {
	for _, c := range p.all() {
		if c.real() {
			return true
		}
	}
	return false
}

func probedPort(probe *corev1.Probe) (intstr.IntOrString, bool) {
	switch {
	case probe.HTTPGet != nil:
		return probe.HTTPGet.Port, true
	case probe.TCPSocket != nil:
		return probe.TCPSocket.Port, true
	}
	return intstr.IntOrString{}, false
}

// ownPort returns the number of one of the ports that a container declares.
func ownPort(c *corev1.Container, port intstr.IntOrString) (int32, error) {
	for _, own := range c.Ports {
		if own.ContainerPort == port.IntVal || port.Type == intstr.String && own.Name == port.StrVal {
			return own.ContainerPort, nil
		}
	}
	return 0, fmt.Errorf("container %s has no port %s", c.Name, port.String())
}

// probe makes a probe over the network.
func probe(spec *corev1.Probe, c *corev1.Container, ip string, timeout time.Duration) error {
	port, ok := probedPort(spec)
	if !ok {
		return errors.New("the simulated kubelet supports HTTP and TCP probes only")
	}
	number := port.IntVal
	if port.Type == intstr.String {
		var err error
		if number, err = ownPort(c, port); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	address := net.JoinHostPort(ip, strconv.Itoa(int(number)))
	if spec.HTTPGet == nil {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	return get(ctx, spec.HTTPGet, address)
}

// probeClient makes a connection for each probe, as a kubelet does, and verifies
// no certificates.
var probeClient = &http.Client{Transport: &http.Transport{
	DisableKeepAlives: true,
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
}}

func get(ctx context.Context, action *corev1.HTTPGetAction, address string) error {
	scheme := "http"
	if action.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+action.Path, nil)
	if err != nil {
		return err
	}
	for _, header := range action.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	response, err := probeClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("%s answers %s", action.Path, response.Status)
	}
	return nil
}
