-- The subscriptions that are owed an event of this dataset. Of events without an arrival only who wanted the history is known.
-- Its body is read anew at each call, and becomes part of the statement that asks.
CREATE FUNCTION subscriptions_owed(of_dataset bigint, arrived_as bigint, occurred_at timestamptz)
RETURNS SETOF dataset_subscription LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT subscription.*
    FROM dataset_subscription AS subscription
    LEFT JOIN dataset_event_arrival AS arrival ON arrival.id = arrived_as
    WHERE subscription.dataset_id = of_dataset
      AND was_subscribed(
          subscription.began_in, subscription.ended_in, subscription.history_since, arrival.xact, arrival.seen, occurred_at
      )
$$;
