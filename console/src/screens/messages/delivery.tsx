import { useEffect } from 'preact/hooks';
import { path } from '../../api.ts';
import type { DeliveryDetail } from '../../api-types.ts';
import { useGet } from '../../load.ts';
import { Heading } from '../../parts/heading.tsx';
import { Empty, Show } from '../../parts/states.tsx';
import { route, to } from '../../router.ts';

/** A webhook id leads to the message it delivers, with that delivery open. */
export function DeliveryScreen() {
  const { id = '', message } = route.value.query;
  const delivery = useGet<DeliveryDetail>(path`v1/deliveries/${id}`, { message });
  const { data } = delivery;
  useEffect(() => {
    if (!data?.messageId) return;
    const source = data.source ?? undefined;
    location.replace(to('message', { id: data.messageId, source, delivery: data.id }));
  }, [data]);
  return (
    <>
      <Heading title="Delivery" lead={<bdi>{id}</bdi>} />
      <Show of={delivery} what="the delivery">
        {({ messageId, listener, status }) =>
          messageId === null ? (
            <Empty title="The retention of its message is over">
              It was sent to {listener ?? 'a listener that was deleted'}; its status is {status}.
            </Empty>
          ) : (
            <p class="loading">Opening its message…</p>
          )
        }
      </Show>
    </>
  );
}
