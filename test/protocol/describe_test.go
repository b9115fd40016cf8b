package protocol

import (
	"fmt"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func describeRequest(m *fleetv1.ConnectRequest) string {
	switch msg := m.GetMessage().(type) {
	case *fleetv1.ConnectRequest_Hello:
		return fmt.Sprintf("Hello protocol=%d-%d agent-term=%d highest-hub-term=%d%s", msg.Hello.MinProtocol, msg.Hello.MaxProtocol,
			msg.Hello.AgentTerm, msg.Hello.HighestHubTerm, describeRequired(msg.Hello.RequiredCapabilities))
	case *fleetv1.ConnectRequest_Inventory:
		last := ""
		if msg.Inventory.Last {
			last = " last"
		}
		return fmt.Sprintf("Inventory%s%s", last, describeReports(msg.Inventory.Items))
	case *fleetv1.ConnectRequest_InventoryDigest:
		return fmt.Sprintf("InventoryDigest assignments=%d", msg.InventoryDigest.Assignments)
	case *fleetv1.ConnectRequest_OrderAck:
		return fmt.Sprintf("OrderAck #%d", msg.OrderAck.Sequence)
	case *fleetv1.ConnectRequest_Reports:
		return fmt.Sprintf("Reports #%d%s", msg.Reports.Sequence, describeReports(msg.Reports.Items))
	case *fleetv1.ConnectRequest_Results:
		return "Results" + describeResults(msg.Results.Items)
	case *fleetv1.ConnectRequest_Capacity:
		return fmt.Sprintf("Capacity #%d assignments=%d", msg.Capacity.Sequence, msg.Capacity.Assignments)
	}
	return fmt.Sprintf("%T", m.GetMessage())
}

func describeRequired(capabilities []string) string {
	if len(capabilities) == 0 {
		return ""
	}
	return " requires=" + strings.Join(capabilities, ",")
}

func describeReports(items []*fleetv1.AssignmentReport) string {
	if len(items) > 8 {
		return fmt.Sprintf(" (%d items)", len(items))
	}
	var b strings.Builder
	for _, item := range items {
		if item.Gone {
			fmt.Fprintf(&b, " [%s gone]", item.SessionUid)
			continue
		}
		fmt.Fprintf(&b, " [%s e%d %s %s]", item.SessionUid, item.Epoch, item.SpecHash, item.GetStatus().GetState())
	}
	return b.String()
}

func describeResults(items []*fleetv1.OrderResult) string {
	if len(items) > 8 {
		return fmt.Sprintf(" (%d items)", len(items))
	}
	var b strings.Builder
	for _, r := range items {
		fields := []string{r.SessionUid, fmt.Sprintf("e%d", r.Epoch)}
		for _, field := range []string{r.SpecHash, strings.TrimPrefix(r.Code.String(), "RESULT_CODE_"), r.Reason} {
			if field != "" {
				fields = append(fields, field)
			}
		}
		fmt.Fprintf(&b, " [%s]", strings.Join(fields, " "))
	}
	return b.String()
}

func describeResponse(m *fleetv1.ConnectResponse) string {
	switch msg := m.GetMessage().(type) {
	case *fleetv1.ConnectResponse_Welcome:
		return fmt.Sprintf("Welcome protocol=%d hub-term=%d renew=%s%s", msg.Welcome.Protocol, msg.Welcome.HubTerm,
			msg.Welcome.RenewInterval.AsDuration(), describeRequired(msg.Welcome.RequiredCapabilities))
	case *fleetv1.ConnectResponse_InventoryRequest:
		buckets, err := convert.BucketsFromWire(msg.InventoryRequest)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("InventoryRequest buckets=%d", buckets.Len())
	case *fleetv1.ConnectResponse_Orders:
		return fmt.Sprintf("Orders #%d%s", msg.Orders.Sequence, describeOrders(msg.Orders.Items))
	case *fleetv1.ConnectResponse_ReportAck:
		return fmt.Sprintf("ReportAck #%d", msg.ReportAck.Sequence)
	case *fleetv1.ConnectResponse_Templates:
		return fmt.Sprintf("Templates (%d)", len(msg.Templates.Templates))
	}
	return fmt.Sprintf("%T", m.GetMessage())
}

func describeOrders(items []*fleetv1.Order) string {
	if len(items) > 8 {
		return fmt.Sprintf(" (%d items)", len(items))
	}
	var b strings.Builder
	for _, o := range items {
		if a := o.GetAssign(); a != nil {
			fmt.Fprintf(&b, " [assign %s e%d %s]", a.SessionUid, a.Epoch, a.SpecHash)
		} else {
			fmt.Fprintf(&b, " [withdraw %s up to e%d]", o.GetWithdraw().SessionUid, o.GetWithdraw().UpToEpoch)
		}
	}
	return b.String()
}
