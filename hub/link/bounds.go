package link

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Bounds of what an agent says of itself and of its member; those of what it
// says of sessions are proto/convert's.
const (
	maxInstance     = 128
	maxVersion      = 128
	maxFingerprint  = 128
	maxToken        = 256
	maxRequestBytes = 16 << 10
	maxCapabilities = 64
	// maxEpoch is beyond any epoch or term that was ever given, and far from
	// where counting on would start over.
	maxEpoch = 1 << 53
	// A capacity report.
	maxNamespaces = 4096
	maxTemplates  = 4096
	maxBuckets    = 1024
	maxResources  = 64
)

func boundHello(h *fleetv1.Hello) error {
	for _, f := range []struct {
		name, text string
		limit      int
	}{
		{"instance", h.GetInstance(), maxInstance},
		{"fingerprint", h.GetFingerprint(), maxFingerprint},
		{"agent_version", h.GetAgentVersion(), maxVersion},
	} {
		if err := convert.CheckWord(f.name, f.text, f.limit); err != nil {
			return fmt.Errorf("%w: %w", errProtocol, err)
		}
	}
	if err := boundRestrictions(h.GetRestrictions()); err != nil {
		return err
	}
	if err := convert.CheckWord("highest_hub_term_proof", h.GetHighestHubTermProof(), convert.MaxProof); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if h.GetHighestHubTerm() > maxEpoch || h.GetAgentTerm() > maxEpoch {
		return fmt.Errorf("%w: terms %d and %d are beyond any", errProtocol, h.GetHighestHubTerm(), h.GetAgentTerm())
	}
	for _, list := range [][]string{h.GetCapabilities(), h.GetRequiredCapabilities()} {
		if len(list) > maxCapabilities {
			return fmt.Errorf("%w: %d capabilities, more than %d", errProtocol, len(list), maxCapabilities)
		}
		for _, name := range list {
			if err := convert.CheckWord("capability", name, convert.MaxWord); err != nil {
				return fmt.Errorf("%w: %w", errProtocol, err)
			}
		}
	}
	return nil
}

func boundRenewal(r *fleetv1.RenewLeaseRequest) error {
	if err := convert.CheckWord("instance", r.GetInstance(), maxInstance); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if err := convert.CheckWord("trust_bundle_hash", r.GetTrustBundleHash(), convert.MaxWord); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	return nil
}

func boundEnroll(r *fleetv1.EnrollRequest) error {
	if convert.CheckWord("token", r.GetToken(), maxToken) != nil {
		// The token is in no error and in no log.
		return ErrToken
	}
	for _, f := range []struct {
		name, text string
		limit      int
	}{
		{"fingerprint", r.GetFingerprint(), maxFingerprint}, {"agent_version", r.GetAgentVersion(), maxVersion},
	} {
		if err := convert.CheckWord(f.name, f.text, f.limit); err != nil {
			return fmt.Errorf("%w: %w", errProtocol, err)
		}
	}
	return boundRequest(r.GetCertificateRequest())
}

func boundRequest(der []byte) error {
	if len(der) == 0 || len(der) > maxRequestBytes {
		return fmt.Errorf("%w: certificate_request: %d bytes, not 1 to %d", errProtocol, len(der), maxRequestBytes)
	}
	return nil
}

// boundResult refuses a result beyond its limits. Its sentence is cut.
func boundResult(r *fleetv1.OrderResult) error {
	if r.GetEpoch() > maxEpoch {
		return fmt.Errorf("epoch: %d is beyond any", r.GetEpoch())
	}
	if err := convert.CheckWord("session_uid", r.GetSessionUid(), convert.MaxWord); err != nil {
		return err
	}
	if err := convert.CheckName("namespace", r.GetNamespace()); err != nil {
		return err
	}
	if err := convert.CheckName("name", r.GetName()); err != nil {
		return err
	}
	if err := convert.CheckWord("spec_hash", r.GetSpecHash(), convert.MaxWord); err != nil {
		return err
	}
	return convert.CheckWord("reason", r.GetReason(), convert.MaxWord)
}

// boundCapacity leaves out of a report what is beyond its limits, in place,
// and says what. The rest of it counts: a template that is left out has no
// room.
func boundCapacity(r *fleetv1.CapacityReport) (malformed []error) {
	r.Nodes, r.Assignments = max(0, r.GetNodes()), max(0, r.GetAssignments())
	boundNamespaces := func(field string, all []string) []string {
		namespaces := all[:0]
		for _, name := range all {
			err := convert.CheckName(field, name)
			if err == nil && len(namespaces) >= maxNamespaces {
				err = fmt.Errorf("%s: more than %d", field, maxNamespaces)
			}
			if err != nil {
				malformed = append(malformed, err)
				continue
			}
			namespaces = append(namespaces, name)
		}
		return namespaces
	}
	r.AdmittedNamespaces = boundNamespaces("admitted_namespaces", r.AdmittedNamespaces)
	if p := r.GetPodSecurity(); p != nil {
		p.NotEnforced = boundNamespaces("pod_security.not_enforced", p.NotEnforced)
	}
	templates := r.Templates[:0]
	for _, t := range r.Templates {
		err := boundTemplate(t)
		if err == nil && len(templates) >= maxTemplates {
			err = fmt.Errorf("templates: more than %d", maxTemplates)
		}
		if err != nil {
			malformed = append(malformed, fmt.Errorf("reading capacity: %w", err))
			continue
		}
		templates = append(templates, t)
	}
	r.Templates = templates
	return malformed
}

// maxMalformed items of a message are told one by one.
const maxMalformed = 8

func atMost(errs []error, most int) []error {
	if len(errs) <= most {
		return errs
	}
	return append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
}

func boundTemplate(t *fleetv1.TemplateCapacity) error {
	if err := convert.CheckName("templates.name", t.GetName()); err != nil {
		return err
	}
	if err := convert.CheckWord("templates.revision", t.GetRevision(), convert.MaxWord); err != nil {
		return err
	}
	if err := convert.CheckWord("templates.reason", t.GetReason(), convert.MaxWord); err != nil {
		return err
	}
	if len(t.GetBuckets()) > maxBuckets || t.GetSlots() < 0 || t.GetImageNodes() < 0 {
		return fmt.Errorf("template %s: %d buckets, %d slots", t.GetName(), len(t.GetBuckets()), t.GetSlots())
	}
	if err := boundResources(t.GetOverhead()); err != nil {
		return fmt.Errorf("template %s: overhead: %w", t.GetName(), err)
	}
	for _, b := range t.GetBuckets() {
		if b.GetNodes() < 0 {
			return fmt.Errorf("template %s: a bucket of %d nodes", t.GetName(), b.GetNodes())
		}
		if err := boundResources(b.GetFree()); err != nil {
			return fmt.Errorf("template %s: a bucket: %w", t.GetName(), err)
		}
	}
	t.Message = convert.Sentence(t.GetMessage(), convert.MaxMessage)
	return nil
}

func boundResources(amounts map[string]int64) error {
	if len(amounts) > maxResources {
		return fmt.Errorf("%d resources", len(amounts))
	}
	for name, amount := range amounts {
		if err := convert.CheckWord("resource", name, convert.MaxName); err != nil {
			return err
		}
		if amount < 0 {
			return fmt.Errorf("%d of %q", amount, name)
		}
	}
	return nil
}
