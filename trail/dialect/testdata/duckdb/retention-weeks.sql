WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
        GROUP BY user
    ),
    returns AS (
        SELECT
            user,
            (((timezone('Asia/Seoul', timezone('UTC', time))::DATE - DATE '1970-01-01') + 719169) // 7) - (((timezone('Asia/Seoul', timezone('UTC', began))::DATE - DATE '1970-01-01') + 719169) // 7) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'purchase'
          AND time >= began
    ),
    came AS (
        SELECT user, bit_or(1::BIGINT << period::INTEGER) AS bits
        FROM returns
        WHERE period < 6
        GROUP BY user
    ),
    periods AS (
        SELECT range AS k
        FROM range(6)
    ),
    counted AS (
        SELECT
            date_trunc('week', timezone('Asia/Seoul', timezone('UTC', began)))::DATE AS cohort,
            bits,
            count(*) AS n
        FROM starts LEFT JOIN came USING (user)
        GROUP BY cohort, bits
    )
SELECT
    cohort,
    sum(n)::BIGINT AS users,
    k AS period,
    coalesce(sum(n) FILTER ((bits >> k::INTEGER) & 1 = 1), 0)::BIGINT AS returned
FROM counted CROSS JOIN periods
GROUP BY cohort, k
ORDER BY cohort, k
